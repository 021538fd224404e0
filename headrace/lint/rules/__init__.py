"""Lists all rules, for `cfn-lint --append-rules headrace.lint.rules`; each file holds the rules of one kind."""

from headrace.lint.rules.limits import TooManyConsumers, TooManyShards, TooMuchConcurrency
from headrace.lint.rules.mappings import (
    MappingDropsSilently,
    MappingRetriesForEver,
    MappingTakesBatchesWhole,
    ParallelBatchesAboveConcurrency,
    SwappedSettings,
    TooManyPollers,
    VisibilityBelowSixTimeouts,
    VisibilityBelowTimeout,
)
from headrace.lint.rules.retention import (
    AlarmWatchesNothing,
    FailuresOutliveRecords,
    NoAlarmOnIteratorAge,
    RecordAgeBeyondRetention,
    RetriesOutlastRetention,
)
from headrace.lint.rules.roles import (
    DeliveryRoleLacksCalls,
    RoleAllowsEverything,
    RoleAllowsUnused,
    RoleLacksTrigger,
    RoleNobodyTakes,
    StepMayNotRead,
)
from headrace.lint.rules.streams import (
    ConvertedAndCompressed,
    ConvertedBufferTooSmall,
    ErrorPrefixWithoutType,
    OneHotShard,
    PartitionedBufferTooSmall,
    PartitionKeyFromNowhere,
    StreamNobodyReads,
    StreamNotEncrypted,
)

RULES = (
    VisibilityBelowTimeout,
    PartitionedBufferTooSmall,
    ConvertedAndCompressed,
    ConvertedBufferTooSmall,
    ErrorPrefixWithoutType,
    PartitionKeyFromNowhere,
    RoleLacksTrigger,
    DeliveryRoleLacksCalls,
    StepMayNotRead,
    MappingRetriesForEver,
    MappingTakesBatchesWhole,
    MappingDropsSilently,
    RecordAgeBeyondRetention,
    RetriesOutlastRetention,
    FailuresOutliveRecords,
    ParallelBatchesAboveConcurrency,
    SwappedSettings,
    TooManyPollers,
    VisibilityBelowSixTimeouts,
    NoAlarmOnIteratorAge,
    AlarmWatchesNothing,
    StreamNotEncrypted,
    StreamNobodyReads,
    OneHotShard,
    RoleAllowsEverything,
    RoleAllowsUnused,
    RoleNobodyTakes,
    TooManyShards,
    TooManyConsumers,
    TooMuchConcurrency,
)
