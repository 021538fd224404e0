"""Run the pipeline through many kills and other faults, and print a certificate of what was found.

    python -m tests.crash.pipeline.run --kills 1000 --seed 7

What is chosen (which fault, how hard) follows from the seed alone; the moment at which it strikes depends on the
machine as well. Exit 1 when a promise was broken; the data directory and the logs are kept then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from headrace.store.check import check
from tests.crash.pipeline import checks
from tests.crash.pipeline.checks import Broken, CheckpointsWatch, Counts, DeliveredLines
from tests.crash.pipeline.cloud import CloudUnderTest
from tests.crash.pipeline.deploy import BUCKET, FIRST, SECOND, Deployed, deploy
from tests.crash.pipeline.faults import Fault, plan, tear_tails
from tests.crash.pipeline.jobs import BUCKET as ARCHIVE
from tests.crash.pipeline.jobs import JobConsumer, JobProducer, check_jobs, deploy_jobs
from tests.crash.pipeline.ledger import Ledger
from tests.crash.pipeline.producers import Producer, Resharder
from tests.support.server import wait_until
from tests.support.small_disk import NoSmallDisk, own_namespace

MOST_WAITING = 1500
CHECK_EVERY_KILLS = 25
COLD_EVERY = 20
DRAIN_WITHIN_S = 180.0
_IN_NAMESPACE = "HEADRACE_KILLS_IN_NAMESPACE"


@dataclass(slots=True)
class Certificate:
    """What a run was and what it found."""

    seed: int
    commit: str
    faults: Counter[str] = field(default_factory=Counter[str])
    counts: Counts = field(default_factory=Counts)
    reshards: int = 0
    refused: int = 0
    longest_recovery_s: float = 0.0
    wall_s: float = 0.0
    disk: str = ""
    broken: str = ""

    @property
    def kills(self) -> int:
        """How many times the process was killed with SIGKILL."""
        return sum(n for name, n in self.faults.items() if name.startswith("kill"))

    def lines(self) -> list[str]:
        """Return the certificate, a fact a line."""
        counts = self.counts
        faults = ", ".join(f"{name} {number}" for name, number in sorted(self.faults.items()))
        duplicates = "; ".join(f"{where}: {n}" for where, n in counts.duplicates.items())
        return [
            f"seed                 {self.seed}",
            f"commit               {self.commit}",
            f"kills (SIGKILL)      {self.kills}",
            f"faults               {faults}",
            f"reshards             {self.reshards}",
            f"disk                 {self.disk}",
            f"records acknowledged {counts.acknowledged}",
            f"records poisoned     {counts.poison}",
            f"objects              {counts.objects}",
            f"queue and channel    {counts.jobs} records, {counts.archived} objects",
            f"requests refused     {self.refused} (or unanswered, and tried again)",
            f"lost                 {counts.lost}",
            f"out of order         {counts.out_of_order}",
            f"duplicates           {duplicates}",
            f"longest recovery     {self.longest_recovery_s:.1f} s",
            f"wall time            {self.wall_s:.0f} s",
            f"verdict              {self.broken or 'every promise held'}",
        ]


class Run:
    """One run, from an empty directory to the certificate."""

    def __init__(
        self,
        root: Path,
        *,
        kills: int,
        seed: int,
        say: Callable[[str], None],
        without_disk: str = "",
    ) -> None:
        self._root = root
        self._kills = kills
        self._say = say
        # What is drawn for the faults must not depend on what else is drawn meanwhile.
        self._plan = list(plan(random.Random(seed), kills))
        self._chosen = random.Random(seed + 1)
        self._cloud = CloudUnderTest(root, without_disk=without_disk)
        self._ledger = Ledger(lambda: self._cloud.incarnation)
        self._offset_ms = 0
        self.certificate = Certificate(seed, commit_id())
        self._producers: list[Producer] = []
        self._jobs: tuple[JobProducer, JobConsumer]
        self._watch: CheckpointsWatch | None = None
        self._lines = DeliveredLines(self._cloud.data_dir / "s3" / BUCKET)

    def run(self) -> Certificate:
        """Do it all. Raises Broken, with the certificate telling so too."""
        began_s = time.monotonic()
        try:
            with contextlib.closing(self._ledger), self._cloud:
                self._cloud.start()
                deployed = deploy(self._cloud, self._ledger.port)
                queue = deploy_jobs(self._cloud)
                self._jobs = JobProducer(self._cloud.port), JobConsumer(self._cloud.port, queue)
                self._go_through(deployed)
        except Broken as error:
            self.certificate.broken = f"BROKEN: {error}"
            raise
        finally:
            self.certificate.wall_s = time.monotonic() - began_s
        return self.certificate

    def _go_through(self, deployed: Deployed) -> None:
        cloud, certificate = self._cloud, self.certificate
        certificate.disk = "of its own" if cloud.disk else f"RLIMIT_FSIZE ({cloud.without_disk})"
        self._producers = [
            Producer(
                f"p{n}",
                cloud.port,
                FIRST,
                random.Random(self._chosen.random()),
                self._may_put,
                special_every=40 if self._kills <= 200 else 200,
            )
            for n in range(3)
        ]
        self._watch = CheckpointsWatch([p.told for p in self._producers], self._ledger, self._lines)
        # A few hundred reshards at most: closed shards stay for a day, and each start opens them all.
        resharder = Resharder(
            cloud.port, [FIRST, SECOND], random.Random(self._chosen.random()),
            pause_s=max(1.0, self._kills / 100),
        )  # fmt: skip
        workers: list[Producer | Resharder | JobProducer | JobConsumer] = [
            *self._producers, resharder, *self._jobs,
        ]  # fmt: skip
        for worker in workers:
            worker.thread.start()
        try:
            for number, fault in enumerate(self._plan):
                self._wait_for_progress(fault)
                self._strike(number, fault)
                failures = [worker.failure for worker in workers if worker.failure]
                if failures:
                    raise Broken(f"a client met what no fault explains: {failures[0]!r}")
        finally:
            consumer = self._jobs[1]
            # The consumer goes on until the queue is checked.
            workers.remove(consumer)
            for worker in workers:
                worker.stop()
            self._cloud.empty_disk()
        self._cloud.shift_clock(self._offset_ms)
        for worker in workers:
            worker.thread.join(60)
            if worker.thread.is_alive():
                raise Broken(f"{worker.thread.name} is still trying a minute after the last fault")
        certificate.reshards = resharder.reshards
        certificate.refused = sum(producer.told.refused for producer in self._producers)
        self._verify(deployed)

    # --- faults -------------------------------------------------------------------------------

    def _acknowledged(self) -> int:
        return sum(producer.told.acknowledged for producer in self._producers)

    def _may_put(self) -> bool:
        """Whether the rest of the pipeline keeps up, so that its end is no matter of minutes."""
        return self._acknowledged() - self._ledger.count < MOST_WAITING

    def _wait_for_progress(self, fault: Fault) -> None:
        """Wait until so much was acknowledged, or forwarded, since the last fault."""
        acknowledged, forwarded = self._acknowledged(), self._ledger.count
        wait_until(
            lambda: (
                (
                    self._acknowledged() - acknowledged >= fault.after_acknowledged
                    and self._ledger.count - forwarded >= fault.after_forwarded
                )
                or self._is_at_its_bounds()
            ),
            within_s=60,
            what=f"progress after {self.certificate.faults}: {fault}",
        )
        time.sleep(fault.after_s)

    def _is_at_its_bounds(self) -> bool:
        return any(producer.failure for producer in self._producers)

    def _strike(self, number: int, fault: Fault) -> None:
        cloud, kind = self._cloud, fault.kind
        self.certificate.faults[kind] += 1
        if kind == "pause":
            cloud.pause(fault.seconds)
            return
        if kind.startswith("clock"):
            self._offset_ms += fault.jump_ms
            cloud.shift_clock(self._offset_ms)
            return
        if "full disk" in kind:
            cloud.fill_disk(fault.leave_bytes)
            time.sleep(fault.seconds)
            if kind == "full disk":
                cloud.empty_disk()
                return
        if kind == "stop":
            cloud.terminate()
        else:
            cloud.kill9()
        if "full disk" in kind:
            cloud.empty_disk()
        if "torn" in kind:
            tear_tails(cloud.data_dir, self._chosen)
        assert self._watch is not None
        self._watch.look(cloud.data_dir)
        if kind.startswith("kill") and self.certificate.kills % CHECK_EVERY_KILLS == 0:
            self._check_data()
        self._start_again(cold=number % COLD_EVERY == COLD_EVERY - 1)
        if self.certificate.kills % 10 == 0:
            self._say(
                f"{self.certificate.kills} of {self._kills} kills, {self._acknowledged():,} records"
                f" acknowledged, {self._ledger.count:,} forwarded, {len(self._lines.objects):,} objects"
            )

    def _start_again(self, *, cold: bool) -> None:
        began_s = time.monotonic()
        self._cloud.start(cold=cold)
        if not self._may_put():
            return
        wait_until(
            lambda: (
                any(p.told.last_acknowledged_s > began_s for p in self._producers)
                or not self._may_put()
                or self._is_at_its_bounds()
            ),
            what="the first record acknowledged after a start",
        )
        recovery_s = time.monotonic() - began_s
        longest_s = self.certificate.longest_recovery_s
        self.certificate.longest_recovery_s = max(longest_s, recovery_s)

    # --- what holds ---------------------------------------------------------------------------

    def _check_data(self) -> None:
        """Let `headrace check`'s own code look at a dead cloud's data; a torn end is no loss."""
        found = check(self._cloud.data_dir)
        problems = [str(problem) for problem in found if not problem.is_harmless]
        if problems:
            raise Broken(f"headrace check finds {problems[:3]}")

    def _verify(self, deployed: Deployed) -> None:
        cloud, counts = self._cloud, self.certificate.counts
        producer, consumer = self._jobs
        counts.archived = check_jobs(cloud, producer, consumer, cloud.data_dir / "s3" / ARCHIVE)
        counts.jobs = len(producer.acknowledged)
        consumer.stop()
        consumer.thread.join(60)
        if consumer.failure is not None:
            raise Broken(f"the queue's consumer: {consumer.failure}")
        told = [producer.told for producer in self._producers]
        first = checks.read_stream(cloud.port, FIRST)
        checks.check_first_stream(first, told, counts)
        wanted = sum(not one.data.get("poison") for one in first)
        self._wait_for_the_end(wanted)
        second = checks.read_stream(cloud.port, SECOND)
        discarded = deployed.failures({one.place for one in first if one.data.get("poison")})
        checks.check_second_stream(first, second, self._ledger, discarded, counts)
        self._wait_until_delivered(len(second))
        checks.check_objects(checks.read_stream(cloud.port, SECOND), self._lines, counts)
        checks.check_table(cloud.client("dynamodb"), told)
        cloud.terminate()
        self._check_data()

    def _wait_for_the_end(self, wanted: int) -> None:
        wait_until(
            lambda: self._ledger.count >= wanted, within_s=DRAIN_WITHIN_S,
            what=f"{wanted} records forwarded",
        )  # fmt: skip

    def _wait_until_delivered(self, count: int) -> None:
        def is_delivered() -> bool:
            status = self._cloud.page("/_headrace/firehose")[0]
            return bool(status["buffered_records"] == 0 and status["delivered_records"] >= count)

        wait_until(is_delivered, within_s=DRAIN_WITHIN_S, what=f"{count} records delivered")


def commit_id() -> str:
    """Return the checkout's commit, marked when it was changed."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
    )  # fmt: skip
    return asked.stdout.strip() or "unknown"


def repeat_command(kills: int, seed: int) -> str:
    """Return what repeats a run."""
    return f"scripts/kills --kills {kills} --seed {seed}"


def _enter_namespace() -> str:
    """Run this command again where it may mount, if it is not there already; return why it may not."""
    if os.environ.get(_IN_NAMESPACE):
        return ""
    try:
        prefix = own_namespace()
    except NoSmallDisk as error:
        return str(error)
    os.environ[_IN_NAMESPACE] = "yes"
    command = [*prefix, sys.executable, "-m", "tests.crash.pipeline.run", *sys.argv[1:]]
    return os.execvp(command[0], command)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="scripts/kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument(
        "--seed", type=int, default=None, help="default: a new one, which is printed"
    )
    parser.add_argument("--no-disk", action="store_true", help="limit files' sizes, mount nothing")
    given: Any = parser.parse_args()
    if given.kills < 1:
        parser.error("--kills is a number from 1")
    without_disk = "not wanted" if given.no_disk else _enter_namespace()
    seed = random.SystemRandom().randrange(1 << 31) if given.seed is None else given.seed
    root = Path(tempfile.mkdtemp(prefix="headrace-kills-"))
    click.echo(f"seed {seed}; to repeat: {repeat_command(given.kills, seed)}")
    run = Run(
        root, kills=given.kills, seed=seed, without_disk=without_disk,
        say=lambda text: click.echo(text),
    )  # fmt: skip
    try:
        run.run()
    except KeyboardInterrupt:
        run.certificate.broken = "interrupted; nothing can be said"
    except AssertionError as error:
        run.certificate.broken = run.certificate.broken or f"BROKEN: {error}"
    click.echo("\n".join(run.certificate.lines()))
    if run.certificate.broken:
        click.echo(f"the log is kept in {root}; to repeat: {repeat_command(given.kills, seed)}")
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
