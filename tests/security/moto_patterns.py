"""Where moto 5.2.5 makes regular expressions of what is not written out on the spot: all were looked at.

A place is a file and a function, as test_patterns.py finds them.
"""

from __future__ import annotations

# headrace.composition.moto_patches makes them do without.
REPLACED = """
core/utils.py aws_api_matches
ecr/models.py ECRBackend._match_repository_filter
ecr/models.py ECRBackend._resolve_image_tag_mutability
ecs/models.py EC2ContainerServiceBackend._parse_resource_arn
events/models.py EventPattern._wildcard_match
events/models.py EventsBackend.list_rules
glue/models.py GlueBackend.get_tables
glue/utils.py _Like.eval
iam/access_control.py IAMPolicyStatement._match
iot/models.py FakeThing._matches_single_query
sqs/models.py SQSBackend.list_queues
stepfunctions/parser/asl/utils/json_path.py _contains_slice_or_wildcard_array
"""

# Python's own fnmatch, whose expressions never go back over a star.
GLOBS = """
ec2/models/tags.py TagBackend.describe_tags
ec2/utils.py is_filter_matching
ec2/utils.py simple_aws_filter_to_re
ec2/utils.py tag_filter_matches
stepfunctions/parser/asl/component/.../string_operators.py StringMatches._compare
"""

# One character at a time, or moto's own names.
HARMLESS = """
managedblockchain/models.py ManagedBlockchainBackend.create_node
secretsmanager/utils.py _exclude_characters
stepfunctions/parser/asl/component/.../string_split.py StringSplit._eval_body
"""

# headrace owns the service, or moto runs it only as a server or a mock.
NOT_SERVED = """
awslambda/models.py EventInvokeConfig.validate
awslambda/models.py LambdaStorage.construct_unknown_function_exception
awslambda/models.py LambdaStorage.del_function
awslambda/models.py LambdaStorage.get_function_by_name_or_arn_forbid_qualifier
awslambda/models.py LambdaStorage.get_function_by_name_or_arn_with_qualifier
awslambda/models.py LambdaStorage.put_function
awslambda/responses.py LambdaResponse._set_configuration_qualifier
core/botocore_stubber.py BotocoreStubber.process_request
core/config.py passthrough_url
emr/responses.py ElasticMapReduceResponse.get_region_from_url
moto_proxy/proxy3.py MotoRequestHandler.get_handler_for_host
s3/responses.py S3Response._invalid_headers
s3/responses.py S3Response.subdomain_based_buckets
s3/utils.py cors_matches_origin
"""

# A constant of moto's under a name, or with an account or a region in it; none repeats a repeat.
CONSTANTS = """
apigateway/models.py APIGatewayBackend.put_integration
applicationautoscaling/models.py _get_resource_type_from_resource_id
appsync/responses.py AppSyncResponse.create_api
appsync/responses.py AppSyncResponse.create_channel_namespace
cognitoidp/utils.py validate_username_format
core/routing.py _host_prefix_regex
ds/validations.py validate_alias
ds/validations.py validate_directory_id
ds/validations.py validate_dns_ips
ds/validations.py validate_name
ds/validations.py validate_password
ds/validations.py validate_remote_domain_name
ds/validations.py validate_short_name
ds/validations.py validate_subnet_ids
ds/validations.py validate_user_name
dynamodb/comparisons.py ConditionExpressionParser._lex_one_node
dynamodb/models/utilities.py find_nested_key
ec2/utils.py is_valid_cidr
ec2/utils.py is_valid_ipv6_cidr
ec2/utils.py is_valid_resource_id
ec2/utils.py is_valid_security_group_id
ecr/models.py ECRBackend._parse_resource_arn
ecr/models.py ECRBackend.create_repository
ecs/models.py EC2ContainerServiceBackend.describe_services
elasticache/models.py ElastiCacheBackend.__init__
elb/models.py ELBBackend.create_load_balancer
elb/models.py ELBBackend.create_load_balancer_listeners
elb/models.py ELBBackend.set_load_balancer_listener_ssl_certificate
elbv2/models.py ELBv2Backend._validate_fixed_response_action
elbv2/models.py ELBv2Backend.create_listener
events/models.py EventsBackend.start_replay
forecast/models.py DatasetGroup._validate_dataset_group_name
glue/glue_schema_registry_constants.py <module>
glue/glue_schema_registry_utils.py validate_param_pattern_and_length
glue/glue_schema_registry_utils.py validate_schema_version_id_pattern
greengrass/models.py GreengrassBackend._validate_group_version_definitions._is_valid_def_ver_arn
iam/config.py PolicyConfigQuery.list_config_service_resources
iam/models.py AccountSummary._policies
iam/models.py IAMBackend.__init__
iot/models.py FakeJob
iot/models.py FakeJob._job_id_matcher
iot/models.py FakeJobTemplate
logs/responses.py validate_param
organizations/models.py OrganizationsBackend._get_resource_for_tagging
organizations/models.py OrganizationsBackend.attach_policy
organizations/models.py OrganizationsBackend.describe_policy
organizations/models.py OrganizationsBackend.detach_policy
organizations/models.py OrganizationsBackend.list_policies_for_target
organizations/models.py OrganizationsBackend.list_targets_for_policy
organizations/utils.py fullmatch
rds/models.py <module>
rds/models.py RDSBackend.__init__
rds/models.py RDSBackend._validate_kms_key
rds/models.py RDSBackend.create_global_cluster
rds/utils.py valid_preferred_maintenance_window
resourcegroups/models.py FakeResourceGroup._validate_tags
resourcegroups/models.py ResourceGroupsBackend._validate_resource_query
resourcegroups/models.py ResourceGroupsBackend.start_tag_sync_task
route53/models.py <module>
route53/models.py Route53Backend.create_query_logging_config
route53resolver/validations.py validate_name
sagemaker/models.py SageMakerModelBackend.list_model_packages
secretsmanager/utils.py get_secret_name_from_partial_arn
ses/models.py SESBackend._validate_name_param
ssm/models.py _validate_document_info
stepfunctions/models.py StepFunctionBackend
stepfunctions/models.py StepFunctionBackend._validate_arn
stepfunctions/parser/asl/component/.../timestamp.py Timestamp._is_valid_timestamp_pattern
stepfunctions/parser/asl/utils/json_path.py _is_singleton_array_access
stepfunctions/parser/provider.py StepFunctionsProvider
sts/models.py STSBackend._create_access_key
utilities/tagging_service.py TaggingService.validate_tags
wafv2/models.py WAFV2Backend._find_apigw_stage
workspaces/models.py WorkSpacesBackend.validate_directory_id
workspaces/models.py WorkSpacesBackend.validate_image_id
"""

REVIEWED = frozenset(
    line.rstrip()
    for block in (REPLACED, GLOBS, HARMLESS, NOT_SERVED, CONSTANTS)
    for line in block.strip("\n").split("\n")
)
