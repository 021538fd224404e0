"""CloudFormation's quotas, and headrace's own limits on templates and their values.

AWS's quotas: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html (documented).
"""

# --- AWS's ------------------------------------------------------------------------------------

BODY_BYTES = 51_200
# "1 MB" is a million bytes: AWS's error names the number (observed).
URL_BODY_BYTES = 1_000_000
RESOURCES = 500
PARAMETERS = 200
PARAMETER_VALUE_BYTES = 4_096
MAPPINGS = 200
MAPPING_ATTRIBUTES = 200
OUTPUTS = 200
NAME_CHARACTERS = 255
STACK_NAME_CHARACTERS = 128
DESCRIPTION_BYTES = 1_024
DYNAMIC_REFERENCES = 60
# Fn::Cidr's count: .../intrinsic-function-reference-cidr.html (documented).
CIDRS = 256
# Size of a custom resource's answer, and how long to wait for it: .../aws-resource-cloudformation-customresource.html.
CUSTOM_RESPONSE_BYTES = 4_096
CUSTOM_TIMEOUT_SECONDS = 3_600
# A wait condition's timeout: .../aws-resource-cloudformation-waitcondition.html; a creation policy's is the same.
WAIT_SECONDS = 43_200

# --- headrace's own, where AWS names none -----------------------------------------------------

# Page sizes: events in DescribeStackEvents, changes in DescribeChangeSet.
PAGE_ITEMS = 100
# The most signals that a resource waits for.
SIGNALS = 10_000
# Levels of lists and maps in a template. The deepest that CDK generates has about thirty.
NESTED = 100
# Bytes that the functions in one resource's properties, in all outputs or in all conditions may produce. A template has
# a megabyte at most; a larger result is a mistake or an attack.
PRODUCED_BYTES = 4_000_000
# Bytes of the properties of all resources of one operation: every event stores them.
OPERATION_BYTES = 8_000_000
# Digits of a number in a template; a longer one is text.
NUMBER_CHARACTERS = 40
