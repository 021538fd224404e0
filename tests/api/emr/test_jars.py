"""A custom jar runs as `hadoop jar` would run it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from tests.api.emr.conftest import LOGS, Lab


def test_a_custom_jar_runs_its_main_class_with_the_properties_of_the_step(
    lab: Lab, data_dir: Path
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    lab.s3.put_object(Bucket=LOGS, Key="own.jar", Body=packed.getvalue())
    lab.s3.put_object(Bucket=LOGS, Key="data/words.txt", Body=b"to be or not")
    cluster_id = lab.cluster()
    # Hadoop's own shell prints an object through `s3://`, which is a file system only by what the step is given.
    step = lab.step("-cat", "s3://logs/data/words.txt", jar="s3://logs/own.jar")
    step["HadoopJarStep"]["MainClass"] = "org.apache.hadoop.fs.FsShell"
    step["HadoopJarStep"]["Properties"] = [{"Key": "flight.colour", "Value": "blue"}]
    (step_id,) = lab.add(cluster_id, step)
    status = lab.ended(cluster_id, step_id)
    folder = data_dir / "emr" / cluster_id / step_id
    assert status["State"] == "COMPLETED", (folder / "stderr").read_text()
    assert (folder / "stdout").read_text() == "to be or not"
    assert "-Dflight.colour=blue" in (folder / "controller").read_text()
