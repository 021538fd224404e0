"""The examples of Flume's User Guide run, or are refused by one sentence with their line; and TLS, by keytool's files.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html. What a fragment of the guide leaves out
is added, ports are free ones, and folders are the test's.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import subprocess
import threading
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from headrace.agent.flume.building import FlumeAgent
from headrace.agent.flume.events import Event
from headrace.agent.flume.intake import _millis
from headrace.agent.flume.object_sinks import Escapes, NoTime, sequence_file, sequence_record
from headrace.agent.properties import ConfigurationError, Section, Value
from tests.support.server import wait_until
from tests.unit.agent.flume.conftest import Flume
from tests.unit.agent.flume.test_agents import Bucket, conf, lines_in

# ruff: noqa: E501 - lines of files.
SSL = "type = syslogtcp\nhost = 127.0.0.1\nport = 0\nssl = true\nkeystore-password = secret"
# Of the guide, below a1: what stands there for `sources.r1`, `sinks.k1`, and so on; and what refuses it.
EXAMPLES: dict[str, tuple[str, str]] = {
    "a simple example": ("sources.r1.type = netcat\nsources.r1.bind = localhost\nsources.r1.port = 44444\nsinks.k1.type = logger\nchannels.c1.type = memory\nchannels.c1.capacity = 1000\nchannels.c1.transactionCapacity = 100", ""),
    "environment": ("sources.r1.type = netcat\nsources.r1.bind = 0.0.0.0\nsources.r1.port = ${NC_PORT}", ""),
    "avro source": ("sources.r1.type = avro\nsources.r1.bind = 0.0.0.0\nsources.r1.port = 4141", ""),
    "avro ipFilter": ("sources.r1.type = avro\nsources.r1.bind = 0.0.0.0\nsources.r1.port = 4141\nsources.r1.ipFilter = true\nsources.r1.ipFilterRules=allow:ip:127.*,allow:name:localhost,deny:ip:*", "ipFilter of source r1 is not built"),
    "thrift source": ("sources.r1.type = thrift\nsources.r1.bind = 0.0.0.0\nsources.r1.port = 4141", "the source type 'thrift' is not built"),
    "exec": ("sources.r1.type = exec\nsources.r1.command = tail -F /var/log/secure", ""),
    "exec shell": ("sources.r1.type = exec\nsources.r1.shell = /bin/bash -c\nsources.r1.command = for i in /path/*.txt; do cat $i; done", ""),
    "jms": ("sources.r1.type = jms\nsources.r1.initialContextFactory = org.apache.activemq.jndi.ActiveMQInitialContextFactory", "the source type 'jms' is not built"),
    "spooldir": ("sources.r1.type = spooldir\nsources.r1.spoolDir = /var/log/apache/flumeSpool\nsources.r1.fileHeader = true", ""),
    "taildir": ("sources.r1.type = TAILDIR\nsources.r1.positionFile = /var/log/flume/taildir_position.json\nsources.r1.filegroups = f1 f2\nsources.r1.filegroups.f1 = /var/log/test1/example.log\nsources.r1.headers.f1.headerKey1 = value1\nsources.r1.filegroups.f2 = /var/log/test2/.*log.*\nsources.r1.headers.f2.headerKey1 = value2\nsources.r1.headers.f2.headerKey2 = value2-2\nsources.r1.fileHeader = true", ""),
    "twitter": ("sources.r1.type = org.apache.flume.source.twitter.TwitterSource", "the source type 'org.apache.flume.source.twitter.TwitterSource' is not built"),
    "kafka": ("sources.r1.type = org.apache.flume.source.kafka.KafkaSource\nsources.r1.kafka.topics = test1, test2", "the source type 'org.apache.flume.source.kafka.KafkaSource' is not built"),
    "netcat": ("sources.r1.type = netcat\nsources.r1.bind = 0.0.0.0\nsources.r1.port = 6666", ""),
    "netcatudp": ("sources.r1.type = netcatudp\nsources.r1.bind = 0.0.0.0\nsources.r1.port = 6666", ""),
    "seq": ("sources.r1.type = seq", ""),
    "syslogtcp": ("sources.r1.type = syslogtcp\nsources.r1.port = 5140\nsources.r1.host = localhost", ""),
    "multiport": ("sources.r1.type = multiport_syslogtcp\nsources.r1.host = 0.0.0.0\nsources.r1.ports = 10001\nsources.r1.portHeader = port", ""),
    "syslogudp": ("sources.r1.type = syslogudp\nsources.r1.port = 5140\nsources.r1.host = localhost", ""),
    "http": ("sources.r1.type = http\nsources.r1.port = 5140\nsources.r1.handler = org.example.rest.RestHandler\nsources.r1.handler.nickname = random props", "the handler 'org.example.rest.RestHandler' is not built"),
    "http of Jetty": ("sources.r1.type = http\nsources.r1.port = 5140\nsources.r1.HttpConfiguration.sendServerVersion = false\nsources.r1.ServerConnector.idleTimeout = 300", "HttpConfiguration.sendServerVersion of source r1 is not built"),
    "stress": ("sources.r1.type = org.apache.flume.source.StressSource\nsources.r1.size = 10240", "the source type 'org.apache.flume.source.StressSource' is not built"),
    "custom source": ("sources.r1.type = org.example.MySource", "the source type 'org.example.MySource' is not built"),
    "hdfs": ("sinks.k1.type = hdfs\nsinks.k1.hdfs.path = /flume/events/%y-%m-%d/%H%M/%S\nsinks.k1.hdfs.filePrefix = events-\nsinks.k1.hdfs.round = true\nsinks.k1.hdfs.roundValue = 10\nsinks.k1.hdfs.roundUnit = minute", ""),
    "hdfs webdata": ("sinks.k1.type = hdfs\nsinks.k1.hdfs.path = hdfs://namenode/flume/webdata", ""),
    "hdfs avro_event": ("sinks.k1.type = hdfs\nsinks.k1.hdfs.path = /flume/events/%y-%m-%d/%H%M/%S\nsinks.k1.serializer = avro_event\nsinks.k1.serializer.compressionCodec = snappy", "the serializer 'avro_event' is not built"),
    "hive": ("sinks.k1.type = hive\nsinks.k1.hive.metastore = thrift://127.0.0.1:9083", "the sink type 'hive' is not built"),
    "logger": ("sinks.k1.type = logger", ""),
    "avro sink": ("sinks.k1.type = avro\nsinks.k1.hostname = 10.10.10.10\nsinks.k1.port = 4545", ""),
    "thrift sink": ("sinks.k1.type = thrift\nsinks.k1.hostname = 10.10.10.10\nsinks.k1.port = 4545", "the sink type 'thrift' is not built"),
    "irc": ("sinks.k1.type = irc\nsinks.k1.hostname = irc.yourdomain.com", "the sink type 'irc' is not built"),
    "file_roll": ("sinks.k1.type = file_roll\nsinks.k1.sink.directory = /var/log/flume", ""),
    "file_roll text": ("sinks.k1.type = file_roll\nsinks.k1.sink.directory = /var/log/flume\nsinks.k1.sink.serializer = text\nsinks.k1.sink.serializer.appendNewline = false", ""),
    "null": ("sinks.k1.type = null", ""),
    "hbase": ("sinks.k1.type = hbase\nsinks.k1.table = foo_table", "the sink type 'hbase' is not built"),
    "memory": ("channels.c1.type = memory\nchannels.c1.capacity = 10000\nchannels.c1.transactionCapacity = 10000\nchannels.c1.byteCapacityBufferPercentage = 20\nchannels.c1.byteCapacity = 800000", ""),
    "file": ("channels.c1.type = file\nchannels.c1.checkpointDir = /mnt/flume/checkpoint\nchannels.c1.dataDirs = /mnt/flume/data", ""),
    "file encrypted": ("channels.c1.type = file\nchannels.c1.encryption.activeKey = key-0\nchannels.c1.encryption.cipherProvider = AESCTRNOPADDING", "encryption of channel c1 is not built"),
    "spillable": ("channels.c1.type = SPILLABLEMEMORY\nchannels.c1.memoryCapacity = 10000", "the channel type 'SPILLABLEMEMORY' is not built"),
    "pseudo": ("channels.c1.type = org.apache.flume.channel.PseudoTxnMemoryChannel", "the channel type 'org.apache.flume.channel.PseudoTxnMemoryChannel' is not built"),
    "replicating": ("sources.r1.selector.type = replicating\nsources.r1.selector.optional = c1", ""),
    "multiplexing": ("sources.r1.selector.type = multiplexing\nsources.r1.selector.header = state\nsources.r1.selector.mapping.CZ = c1\nsources.r1.selector.default = c1", ""),
    "custom selector": ("sources.r1.selector.type = org.example.MyChannelSelector", "the channel selector 'org.example.MyChannelSelector' is not built"),
    "load_balance": ("sinkgroups = g1\nsinkgroups.g1.sinks = k1\nsinkgroups.g1.processor.type = load_balance\nsinkgroups.g1.processor.backoff = true\nsinkgroups.g1.processor.selector = random", ""),
    "failover": ("sinkgroups = g1\nsinkgroups.g1.sinks = k1\nsinkgroups.g1.processor.type = failover\nsinkgroups.g1.processor.priority.k1 = 5\nsinkgroups.g1.processor.maxpenalty = 10000", ""),
    "interceptors": ("sources.r1.interceptors = i1 i2\nsources.r1.interceptors.i1.type = org.apache.flume.interceptor.HostInterceptor$Builder\nsources.r1.interceptors.i1.preserveExisting = false\nsources.r1.interceptors.i1.hostHeader = hostname\nsources.r1.interceptors.i2.type = org.apache.flume.interceptor.TimestampInterceptor$Builder", ""),
    "static": ("sources.r1.interceptors = i1\nsources.r1.interceptors.i1.type = static\nsources.r1.interceptors.i1.key = datacenter\nsources.r1.interceptors.i1.value = NEW_YORK", ""),
    "uuid": ("sources.r1.interceptors = i1\nsources.r1.interceptors.i1.type = org.apache.flume.sink.solr.morphline.UUIDInterceptor$Builder", ""),
    "morphline": ("sources.r1.interceptors = m\nsources.r1.interceptors.m.type = org.apache.flume.sink.solr.morphline.MorphlineInterceptor$Builder", "the interceptor 'org.apache.flume.sink.solr.morphline.MorphlineInterceptor$Builder' is not built"),
    "search_replace": ("sources.r1.interceptors = s\nsources.r1.interceptors.s.type = search_replace\nsources.r1.interceptors.s.searchPattern = The quick brown ([a-z]+) jumped over the lazy ([a-z]+)\nsources.r1.interceptors.s.replaceString = The hungry $2 ate the careless $1", ""),
    "extractor millis": ("sources.r1.interceptors = i1\nsources.r1.interceptors.i1.type = regex_extractor\nsources.r1.interceptors.i1.regex = ^(?:\\\\n)?(\\\\d\\\\d\\\\d\\\\d-\\\\d\\\\d-\\\\d\\\\d\\\\s\\\\d\\\\d:\\\\d\\\\d)\nsources.r1.interceptors.i1.serializers = s1\nsources.r1.interceptors.i1.serializers.s1.type = org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer\nsources.r1.interceptors.i1.serializers.s1.name = timestamp\nsources.r1.interceptors.i1.serializers.s1.pattern = yyyy-MM-dd HH:mm", ""),
    "filter env": ("configfilters = f1\nconfigfilters.f1.type = env\nsources.r1.type = http\nsources.r1.port = 0\nsources.r1.keystorePassword = ${f1['my_keystore_password']} #will get the value Secret123", ""),
    "filter external": ("configfilters = f1\nconfigfilters.f1.type = external\nconfigfilters.f1.command = /bin/echo\nconfigfilters.f1.charset = UTF-8\nsinks.k1.type = file_roll\nsinks.k1.sink.directory = /var/log/agent_${f1['agent_name']}", ""),
    "filter open quote": ("configfilters = f1\nconfigfilters.f1.type = external\nconfigfilters.f1.command = /bin/echo 'x", "command of configuration filter f1: No closing quotation"),
    "filter empty command": ("configfilters = f1\nconfigfilters.f1.type = external\nconfigfilters.f1.command =", "configuration filter f1 needs command"),
    "filter hadoop": ("configfilters = f1\nconfigfilters.f1.type = hadoop\nconfigfilters.f1.credential.provider.path = jceks://file/x", "the configuration filter 'hadoop' is not built"),
    "filter without value": ("configfilters = f1\nconfigfilters.f1.type = env\nsources.r1.type = http\nsources.r1.port = 0\nsources.r1.keystorePassword = ${f1[absent]}", "${f1[absent]} of a.sources.r1.keystorePassword has no value"),
}  # fmt: skip
USUAL = {
    "sources.r1.type": "seq",
    "sources.r1.channels": "c1",
    "sinks.k1.type": "logger",
    "sinks.k1.channel": "c1",
    "channels.c1.type": "memory",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_guide_is_made_or_refused(
    flume: Flume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text, refusal = EXAMPLES[name]
    for folder in ("apache/flumeSpool", "flume", "test1", "test2", "agent_agent_name"):
        (tmp_path / "log" / folder).mkdir(parents=True)
    monkeypatch.setenv("NC_PORT", "0")
    monkeypatch.setenv("my_keystore_password", "Secret123")
    text = re.sub(r"(sources\.r1\.ports? =) \d+", r"\1 0", text)
    text = text.replace("/var/log", str(tmp_path / "log")).replace("/mnt", str(tmp_path))
    if "channels.c1.type = file" in text:
        text += "\nchannels.c1.minimumRequiredSpace = 0"
    more = [f"{key} = {value}" for key, value in USUAL.items() if f"{key} =" not in text]
    lines = ["sources = r1", "sinks = k1", "channels = c1", *more, *text.split("\n")]
    text = "".join(f"a.{line}\n" for line in lines)
    if refusal:
        with pytest.raises(ConfigurationError) as refused:
            flume.build(text, hdfs="s3://b/p")
        assert re.fullmatch(rf"{flume.path}:\d+: {re.escape(refusal)}", str(refused.value))
        return
    close(flume.build(text, hdfs="s3://b/p"))


def close(agent: FlumeAgent) -> None:
    sources: dict[str, Any] = agent.sources
    for source in sources.values():
        for name in ("server", "_server", "_socket"):
            if hasattr(source, name):
                server = getattr(source, name)
                (server.server_close if name == "_server" else server.close)()
    for channel in agent.channels.values():
        channel.close()


# --- TLS --------------------------------------------------------------------------------------------


def keytool_stores(folder: Path) -> None:
    def keytool(*arguments: str) -> None:
        subprocess.run(["keytool", *arguments, "-storepass", "secret"], cwd=folder, check=True, capture_output=True)  # fmt: skip

    keytool("-genkeypair", "-alias", "flume", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=dns:localhost",
            "-keystore", "server.jks")  # fmt: skip
    keytool("-exportcert", "-alias", "flume", "-rfc", "-file", "server.pem", "-keystore", "server.jks")  # fmt: skip
    keytool("-importcert", "-alias", "flume", "-file", "server.pem", "-noprompt", "-keystore", "trust.jks")  # fmt: skip


def own_stores(folder: Path) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])  # fmt: skip
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    lock = serialization.BestAvailableEncryption(b"secret")
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.jks").write_bytes(
        pkcs12.serialize_key_and_certificates(b"flume", key, certificate, None, lock)
    )
    trusted = pkcs12.PKCS12Certificate(certificate, b"flume")
    (folder / "trust.jks").write_bytes(pkcs12.serialize_java_truststore([trusted], lock))


@pytest.fixture(
    scope="module", params=[own_stores, pytest.param(keytool_stores, marks=pytest.mark.slow)]
)
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server's keystore and a client's truststore; nightly those of Java's keytool."""
    folder = tmp_path_factory.mktemp("stores")
    request.param(folder)
    return folder


def test_agents_are_chained_by_avro_over_tls(tmp_path: Path, stores: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    last, first, out = Flume(tmp_path / "1"), Flume(tmp_path / "2"), tmp_path / "out"
    keys = f"ssl = true\nkeystore = {stores}/server.jks\nkeystore-password = secret"
    receiver = last.build(conf(f"type = avro\nbind = 127.0.0.1\nport = 0\n{keys}", out))
    sources: dict[str, Any] = receiver.sources
    end = last.serve(receiver)
    try:
        port = sources["s"].server.ports[0]
        text = re.sub(
            r"a\.sinks\.k\.(type|sink\.\w+) = .*\n", "", conf("type = seq\ntotalEvents = 250", out)
        )
        first.run(
            f"{text}a.sinks.k.type = avro\na.sinks.k.hostname = 127.0.0.1\na.sinks.k.port = {port}\na.sinks.k.ssl = true\n"
            f"a.sinks.k.truststore = {stores}/trust.jks\na.sinks.k.truststore-password = secret\n"
        )
        wait_until(lambda: len(lines_in(out)) == 250, what="all events arrive")
    finally:
        end()


def test_syslog_and_http_speak_tls(flume: Flume, tmp_path: Path, stores: Path) -> None:
    out = tmp_path / "out"
    keys = f"{SSL}\nkeystore = {stores}/server.jks"
    more = re.sub(
        "^",
        "a.sources.h.",
        keys.replace("syslogtcp", "http").replace("host", "bind"),
        flags=re.MULTILINE,
    )
    agent = flume.build(
        conf(keys, out, more=f"{more}\na.sources.h.channels = c\n").replace("sources = s\n", "sources = s h\n", 1)
    )  # fmt: skip
    sources: dict[str, Any] = agent.sources
    end = flume.serve(agent)
    try:
        trust = ssl.create_default_context(cafile=str(stores / "server.pem"))
        port = sources["s"].server.ports[0]
        # Who speaks no TLS is left, and the port goes on.
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"<34>Oct 11 22:14:15 host su: in plain text\n")
        with (
            socket.create_connection(("127.0.0.1", port)) as client,
            trust.wrap_socket(client, server_hostname="localhost") as secure,
        ):
            secure.sendall(b"<34>Oct 11 22:14:15 host su: by TLS\n")
        url = f"https://localhost:{sources['h'].port}/"
        request = urllib.request.Request(url, b'[{"body": "by https"}]')
        with urllib.request.urlopen(request, context=trust) as answer:
            assert answer.status == 200
        wait_until(lambda: sorted(lines_in(out)) == ["by https", "su: by TLS"], what="both arrive")
    finally:
        end()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("", "9: source s needs keystore, since ssl is true"),
        ("\nkeystore = {stores}/none.p12", "keystore of source s: {stores}/none.p12: No such file or directory"),
        ("\nkeystore = {stores}/old.jks", "{stores}/old.jks is a JKS keystore; keytool -importkeystore -deststoretype PKCS12 converts it"),
        ("\nkeystore = {stores}/server.pem", "{stores}/server.pem cannot be opened as PKCS #12 with its password"),
        ("\nkeystore = {stores}/trust.jks", "the keystore of source s has no private key"),
        ("\nkeystore = {stores}/server.jks\nexclude-protocols = TLSv1.2 TLSv1.3", "source s has neither TLSv1.2 nor TLSv1.3 among its protocols"),
        ("\nkeystore = {stores}/server.jks\ninclude-cipher-suites = X", "include-cipher-suites of source s is not built"),
    ],
)  # fmt: skip
def test_a_keystore_that_cannot_be_used_is_refused_with_its_line(
    flume: Flume, tmp_path: Path, stores: Path, change: str, sentence: str
) -> None:
    (stores / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ConfigurationError) as refusal:
        flume.build(conf(SSL + change.format(stores=stores), tmp_path / "out"))
    assert str(refusal.value).endswith(sentence.format(stores=stores))


def test_http_answers_no_200_once_its_drain_began(flume: Flume, tmp_path: Path) -> None:
    """A handler's thread outlives the listener: what it put then would be in nobody's hands."""
    agent = flume.build(conf("type = http\nbind = 127.0.0.1\nport = 0", tmp_path / "out"))
    source: Any = agent.sources["s"]
    body = b'[{"body": "late"}]'
    may_put, is_putting = threading.Event(), threading.Event()
    put = source._intake.put

    def slow_put(events: Any) -> None:
        is_putting.set()
        may_put.wait(30)
        put(events)

    source._intake.put = slow_put
    answers: list[int] = []
    url = f"http://127.0.0.1:{source.port}/"
    asking = threading.Thread(
        target=lambda: answers.append(urllib.request.urlopen(url, body, timeout=30).status)
    )
    running = threading.Thread(target=source.run, kwargs={"once": False})
    running.start()
    asking.start()
    assert is_putting.wait(30)
    flume.stop.set()
    # The source does not end before the event is in its channel.
    wait_until(lambda: source._is_ended, what="the source takes no more")
    assert running.is_alive()
    may_put.set()
    running.join(30)
    assert not running.is_alive()
    asking.join(30)
    assert answers == [200]
    assert agent.channels["c"].used == 1
    assert source._put(body, "utf-8") == (503, "The agent stops.")
    assert agent.channels["c"].used == 1


# --- SequenceFile -----------------------------------------------------------------------------------


def test_a_sequence_file_is_hadoop_s() -> None:
    record = sequence_record(Event({"timestamp": "7"}, b"x" * 200), 1, is_text=True)
    # The body's length as Hadoop writes 200: a byte follows.
    assert record == struct.pack(">iiq", 210, 8, 7) + b"\x8f\xc8" + b"x" * 200
    file = sequence_file([record], is_text=True)
    assert file.startswith(
        b"SEQ\x06\x21org.apache.hadoop.io.LongWritable\x19org.apache.hadoop.io.Text\0\0\0\0\0\0"
    )
    assert file.endswith(record)
    # A mark before the record behind 100 kB, the one of the header.
    large = sequence_record(Event({}, b"y" * 100_000), 1, is_text=False)
    file = sequence_file([large, record], is_text=False)
    mark = file[: -len(large) - len(record) - 20][-16:]
    assert file.endswith(b"\xff\xff\xff\xff" + mark + record)
    for stamp in ("noon", "\u00b2", "9" * 30):
        with pytest.raises(
            NoTime, match=f"the header timestamp of an event is no number: '{stamp}'"
        ):
            sequence_record(Event({"timestamp": stamp}, b""), 1, is_text=True)


def test_a_time_that_has_no_milliseconds_is_kept_as_it_is(tmp_path: Path) -> None:
    section = Section(tmp_path, {"pattern": Value("yyyy-MM-dd", 1)}, "", "i1")
    assert _millis(section)("0001-01-01") == "0001-01-01"


@pytest.mark.parametrize("stamp", ["noon", "\u00b2", "--1", "9" * 30, "9" * 18])
def test_a_timestamp_that_is_no_time_fails_the_sink_and_not_the_agent(stamp: str) -> None:
    with pytest.raises(NoTime, match="timestamp"):
        Escapes("logs/%Y").fill({"timestamp": stamp}, UTC, None, None)


def test_hdfs_without_a_file_type_writes_sequence_files(flume: Flume, tmp_path: Path) -> None:
    bucket = Bucket()
    text = conf("type = seq\ntotalEvents = 25", tmp_path / "out")
    text = re.sub(r"a\.sinks\.k\.(type|sink\.\w+) = .*\n", "", text)
    flume.run(f"{text}a.sinks.k.type = hdfs\na.sinks.k.hdfs.path = s3a://b/logs\n", reach=bucket)
    assert [body[:4] for body in bucket.objects.values()] == [b"SEQ\x06"] * 3
