"""How resources of the types written in code are read back, as data. See `reading.py`."""

from headrace.services.cloudformation.resources.reading import ReadingRules
from headrace.services.cloudformation.resources.readings import others, streaming
from headrace.services.cloudformation.resources.readings.buckets import BUCKET, BUCKET_POLICY

READINGS: dict[str, ReadingRules] = {
    reading.type: reading
    for reading in (BUCKET, BUCKET_POLICY, *streaming.READINGS, *others.READINGS)
}
