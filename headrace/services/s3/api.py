"""Builds S3 from its parts, and describes it to the gateway and the cloud."""

from __future__ import annotations

import functools
from pathlib import Path

from headrace.aws.protocols.service import ServiceApi
from headrace.aws.protocols.strictness import Strictness
from headrace.core.clock import Clock
from headrace.core.config import Durability
from headrace.core.ids import Ids
from headrace.core.ports import Guard, PrincipalCheck, accept_principal
from headrace.services.s3.actions import ACTIONS
from headrace.services.s3.backend import S3
from headrace.services.s3.encryption import Keys
from headrace.services.s3.errors import translate
from headrace.services.s3.fast_path import RawRequests
from headrace.services.s3.fidelity import FIDELITY
from headrace.services.s3.files import ObjectFiles
from headrace.services.s3.history import Histories
from headrace.services.s3.history_store import HistoryIndex
from headrace.services.s3.notifications import Notifications
from headrace.services.s3.profile import PROFILE
from headrace.services.s3.resource_keys import find_key
from headrace.services.s3.store import Buckets, ObjectIndex
from headrace.services.s3.targets import Targets
from headrace.services.s3.uploads import Uploads
from headrace.store.database import Database


def build_s3(
    *,
    data_dir: Path,
    clock: Clock,
    ids: Ids,
    database: Database,
    durability: Durability = "os",
    keys: Keys | None = None,
    targets: Targets | None = None,
    guard: Guard | None = None,
    has_principal: PrincipalCheck = accept_principal,
) -> S3:
    """Return S3 with its parts. `S3.start` loads the buckets."""
    index = ObjectIndex(database)
    files = ObjectFiles(data_dir, ids=ids, index=index, durability=durability)
    return S3(
        clock=clock,
        buckets=Buckets(database),
        files=files,
        uploads=Uploads(data_dir, clock=clock, ids=ids, database=database, settle=files.settle),
        notifications=Notifications(
            clock=clock, ids=ids, database=database, targets=targets, guard=guard
        ),
        histories=Histories(files, HistoryIndex(database), ids),
        keys=keys,
        has_principal=has_principal,
    )


def s3_api(s3: S3, *, strict: bool = False) -> ServiceApi:
    """Return the service for the gateway."""
    strictness = Strictness.of("s3", ACTIONS, FIDELITY) if strict else None
    return ServiceApi(
        name="s3",
        backend=s3,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        raw=RawRequests(s3, ACTIONS, strictness).answer_raw,
        policy_of=s3.policy_of,
        key_of=functools.partial(find_key, s3),
    )
