// More stacks as strangers write them: every option of aws-cdk-lib's streaming constructs, and the alpha packages.
const path = require('path');
const cdk = require('aws-cdk-lib');
const {
  aws_apigateway: ag, aws_apigatewayv2: ag2, aws_cloudwatch: cw, aws_cloudwatch_actions: cwa, aws_dynamodb: ddb,
  aws_ec2: ec2, aws_ecs: ecs, aws_events: ev, aws_events_targets: t, aws_glue: glue, aws_iam: iam, aws_kinesis: k,
  aws_kinesisfirehose: fh, aws_kms: kms, aws_lambda: l, aws_lambda_destinations: dst, aws_lambda_event_sources: es,
  aws_lambda_nodejs: nodejs, aws_logs: logs, aws_logs_destinations: ld, aws_opensearchservice: os, aws_pipes: pipes,
  aws_s3: s3, aws_s3_deployment: s3d, aws_s3_notifications: n, aws_scheduler: sch, aws_scheduler_targets: scht,
  aws_sns: sns, aws_sns_subscriptions: subs, aws_sqs: sqs, aws_ssm: ssm, aws_stepfunctions: sfn,
  aws_stepfunctions_tasks: tasks, custom_resources: cr, triggers, aws_codebuild: codebuild, aws_emrserverless: emrs,
  aws_secretsmanager: sec, aws_applicationautoscaling: aas, aws_codedeploy: codedeploy,
} = cdk;
const code = name => path.join(__dirname, 'code', name);
const optional = name => { try { return require(name); } catch (error) { return null; } };

module.exports = function ({ S, fn, st, q, bk, tb, rule, sm }) {
  const second = cdk.Duration.seconds(1);
  const minute = sch.ScheduleExpression.cron({});
  const DESTROY = cdk.RemovalPolicy.DESTROY;
  const inline = (s, id, text, more = {}) => new l.Function(s, id, {
    functionName: `${s.stackName}-${id.toLowerCase()}`, runtime: l.Runtime.PYTHON_3_13, handler: 'index.h',
    code: l.Code.fromInline(text), timeout: cdk.Duration.seconds(10), ...more,
  });
  const failing = s => inline(s, 'Fails', 'def h(e, c):\n  raise Exception("no")');
  const topic = s => new sns.Topic(s, 'T', { topicName: s.stackName });
  // Its name makes the survey send data elsewhere and look for its arrival here.
  const out = s => q(s, 'Out');
  const delivery = (s, b, more = {}) => new fh.DeliveryStream(s, 'D', {
    deliveryStreamName: s.stackName, destination: new fh.S3Bucket(b, { bufferingInterval: second, ...more }),
  });
  const role = (s, service) => new iam.Role(s, 'Role', { assumedBy: new iam.ServicePrincipal(`${service}.amazonaws.com`) });
  const queueMachine = (s, id = 'M', more = {}) => new sfn.StateMachine(s, id, {
    definitionBody: sfn.DefinitionBody.fromChainable(new tasks.SqsSendMessage(s, `${id}Send`, {
      queue: out(s), messageBody: sfn.TaskInput.fromJsonPathAt('$') })), ...more,
  });

  // --- Kinesis ------------------------------------------------------------------------------------
  S('k-consumer', s => { const c = new k.StreamConsumer(s, 'C', { stream: st(s), streamConsumerName: 'c' }); c.grantRead(role(s, 'lambda')); });
  S('k-policy', s => st(s).addToResourcePolicy(new iam.PolicyStatement({ principals: [new iam.AccountRootPrincipal()], actions: ['kinesis:PutRecord'], resources: [`arn:aws:kinesis:us-east-1:000000000000:stream/${s.stackName}`] })));
  S('k-consumer-policy', s => { const c = new k.StreamConsumer(s, 'C', { stream: st(s), streamConsumerName: 'c' }); c.addToResourcePolicy(new iam.PolicyStatement({ principals: [new iam.AccountRootPrincipal()], actions: ['kinesis:SubscribeToShard'], resources: [c.streamConsumerArn] })); });
  S('k-shard-metrics', s => new k.Stream(s, 'S', { streamName: s.stackName, shardLevelMetrics: [k.ShardLevelMetrics ? k.ShardLevelMetrics.INCOMING_BYTES : 'IncomingBytes'] }));
  S('k-producer', s => { const f = inline(s, 'F', 'import boto3,os\ndef h(e,c):\n  boto3.client("kinesis").put_record(StreamName=os.environ["STREAM"],PartitionKey="a",Data=b"x")'); const s1 = st(s); f.addEnvironment('STREAM', s1.streamName); s1.grantWrite(f); });
  S('k-alarm', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(out(s))); st(s).metricGetRecordsIteratorAgeMilliseconds().createAlarm(s, 'A', { alarmName: s.stackName, threshold: 60000, evaluationPeriods: 1 }).addAlarmAction(new cwa.SnsAction(to)); });
  S('k-alarm-lambda', s => st(s).metricPutRecordSuccess().createAlarm(s, 'A', { alarmName: s.stackName, threshold: 1, evaluationPeriods: 1 }).addAlarmAction(new cwa.LambdaAction(fn(s))));
  S('k-dashboard', s => new cw.Dashboard(s, 'D', { widgets: [[new cw.GraphWidget({ left: [st(s).metricIncomingRecords()] })]] }));

  // --- event sources ------------------------------------------------------------------------------
  S('l-kinesis-options', s => fn(s).addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, batchSize: 10, parallelizationFactor: 2, maxRecordAge: cdk.Duration.minutes(5), maxBatchingWindow: second, reportBatchItemFailures: true, retryAttempts: 3, bisectBatchOnError: true })));
  S('l-kinesis-window', s => inline(s, 'Fn', 'import boto3,os\ndef h(e,c):\n  boto3.client("s3").put_object(Bucket="survey-sink",Key=os.environ["AWS_LAMBDA_FUNCTION_NAME"]+"/"+c.aws_request_id,Body=b"x")\n  return {"state":{}}').addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, tumblingWindow: cdk.Duration.seconds(5) })));
  S('l-kinesis-filter', s => fn(s).addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, filters: [l.FilterCriteria.filter({ data: { id: l.FilterRule.isEqual(1) } })] })));
  S('l-kinesis-fails-sqs', s => failing(s).addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, retryAttempts: 0, onFailure: new es.SqsDlq(out(s)) })));
  S('l-kinesis-fails-sns', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(out(s))); failing(s).addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, retryAttempts: 0, onFailure: new es.SnsDlq(to) })); });
  S('l-kinesis-fails-s3', s => failing(s).addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, retryAttempts: 0, onFailure: new es.S3OnFailureDestination(bk(s)) })));
  S('l-dynamo-fails-sqs', s => failing(s).addEventSource(new es.DynamoEventSource(tb(s), { startingPosition: l.StartingPosition.TRIM_HORIZON, retryAttempts: 0, onFailure: new es.SqsDlq(out(s)) })));
  S('l-sqs-options', s => fn(s).addEventSource(new es.SqsEventSource(q(s), { batchSize: 5, maxBatchingWindow: second, reportBatchItemFailures: true, maxConcurrency: 2, filters: [l.FilterCriteria.filter({ body: { a: l.FilterRule.isEqual(1) } })] })));
  S('l-sqs-fails', s => { const source = new sqs.Queue(s, 'Q', { queueName: `${s.stackName}-q`, visibilityTimeout: cdk.Duration.seconds(10), deadLetterQueue: { queue: out(s), maxReceiveCount: 1 } }); failing(s).addEventSource(new es.SqsEventSource(source)); });
  S('l-sns-filter', s => fn(s).addEventSource(new es.SnsEventSource(topic(s), { filterPolicyWithMessageBody: { kind: sns.FilterOrPolicy.filter(sns.SubscriptionFilter.stringFilter({ allowlist: ['a'] })) }, deadLetterQueue: q(s, 'Dlq') })));
  S('l-s3-filter', s => fn(s).addEventSource(new es.S3EventSource(bk(s), { events: [s3.EventType.OBJECT_CREATED_PUT], filters: [{ prefix: 'in/' }] })));
  S('l-alias', s => { const f = fn(s); new l.Alias(s, 'Live', { aliasName: 'live', version: f.currentVersion }).addEventSource(new es.KinesisEventSource(st(s), { startingPosition: l.StartingPosition.TRIM_HORIZON })); });
  S('l-alias-deploy', s => { const f = fn(s); const alias = new l.Alias(s, 'Live', { aliasName: 'live', version: f.currentVersion }); new codedeploy.LambdaDeploymentGroup(s, 'G', { alias, deploymentConfig: codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE }); });
  S('l-layer', s => { const layer = new l.LayerVersion(s, 'L', { code: l.Code.fromAsset(code('python')), compatibleRuntimes: [l.Runtime.PYTHON_3_13] }); const f = fn(s); f.addLayers(layer); f.addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); });
  S('l-asset', s => new l.Function(s, 'F', { functionName: `${s.stackName}-f`, runtime: l.Runtime.PYTHON_3_13, handler: 'index.h', code: l.Code.fromAsset(code('python')), timeout: cdk.Duration.seconds(10) }).addEventSource(new es.SqsEventSource(q(s))));
  S('l-nodejs', s => new nodejs.NodejsFunction(s, 'F', { functionName: `${s.stackName}-f`, entry: code('sink.ts'), runtime: l.Runtime.NODEJS_22_X, depsLockFilePath: path.join(__dirname, 'package.json'), projectRoot: __dirname, timeout: cdk.Duration.seconds(20) }).addEventSource(new es.SqsEventSource(q(s))));
  S('l-singleton', s => new l.SingletonFunction(s, 'F', { uuid: 'f7d4f730-4ee1-11e8-9c2d-fa7ae01bbebc', runtime: l.Runtime.PYTHON_3_13, handler: 'index.h', code: l.Code.fromAsset(code('python')), timeout: cdk.Duration.seconds(10) }).addEventSource(new es.SqsEventSource(q(s))));
  S('l-async-sns', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(out(s))); fn(s).configureAsyncInvoke({ onSuccess: new dst.SnsDestination(to), retryAttempts: 0 }); });
  S('l-async-sqs-fails', s => failing(s).configureAsyncInvoke({ onFailure: new dst.SqsDestination(out(s)), retryAttempts: 0 }));
  S('l-async-s3', s => { if (!dst.S3Destination) return fn(s); failing(s).configureAsyncInvoke({ onFailure: new dst.S3Destination(bk(s)), retryAttempts: 0 }); });
  S('l-dlq', s => inline(s, 'Fails', 'def h(e, c):\n  raise Exception("no")', { deadLetterQueue: out(s), retryAttempts: 0 }));
  S('l-log-group', s => { const g = new logs.LogGroup(s, 'L', { logGroupName: s.stackName, removalPolicy: DESTROY }); inline(s, 'F', 'def h(e, c):\n  print("seen")', { logGroup: g, loggingFormat: l.LoggingFormat.JSON }); });
  S('l-concurrency', s => { const f = inline(s, 'Fn', 'def h(e, c): return 1', { reservedConcurrentExecutions: 5 }); new l.Alias(s, 'A', { aliasName: 'live', version: f.currentVersion, provisionedConcurrentExecutions: 1 }); });
  S('l-permission', s => { const f = fn(s); f.addPermission('P', { principal: new iam.ServicePrincipal('s3.amazonaws.com'), sourceAccount: '000000000000' }); f.grantInvokeUrl; });

  // --- Firehose -----------------------------------------------------------------------------------
  S('fh-key', s => new fh.DeliveryStream(s, 'D', { deliveryStreamName: s.stackName, encryption: fh.StreamEncryption.customerManagedKey(new kms.Key(s, 'K', { removalPolicy: DESTROY })), destination: new fh.S3Bucket(bk(s), { bufferingInterval: second, loggingConfig: new fh.EnableLogging(new logs.LogGroup(s, 'L', { removalPolicy: DESTROY })), fileExtension: '.json', timeZone: cdk.TimeZone.EUROPE_BERLIN }) }));
  S('fh-delimiter', s => delivery(s, bk(s), { processors: [new fh.AppendDelimiterToRecordProcessor()] }));
  S('fh-logs', s => { const g = new logs.LogGroup(s, 'L', { logGroupName: s.stackName, removalPolicy: DESTROY }); const d = delivery(s, bk(s), { processors: [new fh.DecompressionProcessor(), new fh.CloudWatchLogProcessor({ dataMessageExtraction: true })] }); g.addSubscriptionFilter('F', { destination: new ld.FirehoseDestination(d), filterPattern: logs.FilterPattern.allEvents() }); });
  S('fh-partitions', s => delivery(s, bk(s), { bufferingInterval: cdk.Duration.seconds(60), bufferingSize: cdk.Size.mebibytes(64), dynamicPartitioning: { enabled: true }, dataOutputPrefix: 'id=!{partitionKeyFromQuery:id}/', errorOutputPrefix: 'err/', processors: [fh.MetadataExtractionProcessor.jq16({ id: '.id' })] }));
  S('fh-parquet', s => {
    const database = new glue.CfnDatabase(s, 'Db', { catalogId: '000000000000', databaseInput: { name: 'fh_parquet' } });
    const table = new glue.CfnTable(s, 'Table', { catalogId: '000000000000', databaseName: 'fh_parquet', tableInput: { name: 'rows', storageDescriptor: { columns: [{ name: 'id', type: 'int' }] } } });
    table.addDependency(database);
    delivery(s, bk(s), { bufferingSize: cdk.Size.mebibytes(64), dataFormatConversion: { schemaConfiguration: fh.SchemaConfiguration.fromCfnTable(table), inputFormat: fh.InputFormat.OPENX_JSON, outputFormat: fh.OutputFormat.PARQUET } });
  });
  S('fh-http', s => new fh.DeliveryStream(s, 'D', { deliveryStreamName: s.stackName, destination: new fh.HttpEndpoint({ endpointConfig: { url: 'https://127.0.0.1:9/', name: 'x' }, backupMode: fh.HttpBackupMode.ALL, bufferingHints: { interval: second, size: cdk.Size.mebibytes(1) }, retryOptions: { duration: cdk.Duration.seconds(0) }, s3Backup: { bucket: bk(s), bufferingInterval: second } }) }));
  S('fh-opensearch', s => { const d = new os.Domain(s, 'Dom', { version: os.EngineVersion.OPENSEARCH_2_19, removalPolicy: DESTROY }); const b = bk(s); const r = role(s, 'firehose'); b.grantReadWrite(r); d.grantReadWrite(r); new fh.CfnDeliveryStream(s, 'D', { deliveryStreamName: s.stackName, amazonopensearchserviceDestinationConfiguration: { indexName: 'x', domainArn: d.domainArn, roleArn: r.roleArn, s3BackupMode: 'AllDocuments', bufferingHints: { intervalInSeconds: 1, sizeInMBs: 1 }, s3Configuration: { bucketArn: b.bucketArn, roleArn: r.roleArn, bufferingHints: { intervalInSeconds: 1, sizeInMBs: 1 } } } }); });
  S('fh-splunk', s => { const b = bk(s); const r = role(s, 'firehose'); b.grantReadWrite(r); new fh.CfnDeliveryStream(s, 'D', { deliveryStreamName: s.stackName, splunkDestinationConfiguration: { hecEndpoint: 'https://127.0.0.1:9', hecEndpointType: 'Raw', hecToken: 't', hecAcknowledgmentTimeoutInSeconds: 180, retryOptions: { durationInSeconds: 0 }, s3BackupMode: 'AllEvents', s3Configuration: { bucketArn: b.bucketArn, roleArn: r.roleArn, bufferingHints: { intervalInSeconds: 1, sizeInMBs: 1 } } } }); });

  // --- rules --------------------------------------------------------------------------------------
  S('ev-url', s => { const f = fn(s); const u = f.addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); const c = new ev.Connection(s, 'C', { authorization: ev.Authorization.basic('me', cdk.SecretValue.unsafePlainText('v')), headerParameters: { 'x-from': ev.HttpParameter.fromString('rule') } }); rule(s, new t.ApiDestination(new ev.ApiDestination(s, 'D', { connection: c, endpoint: u.url }))); });
  S('ev-api-iam', s => { const a = new ag.RestApi(s, 'A'); a.root.addResource('{p}').addMethod('POST', new ag.LambdaIntegration(fn(s)), { authorizationType: ag.AuthorizationType.IAM }); rule(s, new t.ApiGateway(a, { path: '/*', method: 'POST', pathParameterValues: ['x'], headerParameters: { a: 'b' }, queryStringParameters: { c: 'd' } })); });
  S('ev-http-api', s => { const { HttpLambdaIntegration } = require('aws-cdk-lib/aws-apigatewayv2-integrations'); const a = new ag2.HttpApi(s, 'A'); a.addRoutes({ path: '/x', methods: [ag2.HttpMethod.POST], integration: new HttpLambdaIntegration('I', fn(s)) }); rule(s, new t.ApiGatewayV2(a, { path: '/x', method: 'POST' })); });
  S('ev-options', s => rule(s, new t.LambdaFunction(fn(s), { deadLetterQueue: q(s, 'Dlq'), retryAttempts: 2, maxEventAge: cdk.Duration.hours(1), event: ev.RuleTargetInput.fromText(`seen ${ev.EventField.detailType}`) })));
  S('ev-fifo', s => rule(s, new t.SqsQueue(new sqs.Queue(s, 'Q', { fifo: true, contentBasedDeduplication: true, queueName: `${s.stackName}-q.fifo` }), { messageGroupId: 'g' })));
  S('ev-kinesis-key', s => rule(s, new t.KinesisStream(st(s), { partitionKeyPath: ev.EventField.eventId, message: ev.RuleTargetInput.fromMultilineText('a\nb') })));
  S('ev-match', s => new ev.Rule(s, 'R', { eventPattern: { source: ev.Match.prefix('ev-'), detail: { a: ev.Match.anyOf(ev.Match.greaterThan(0), ev.Match.exists()) }, detailType: ev.Match.anythingBut('other') }, targets: [new t.SqsQueue(q(s))] }));
  S('ev-sdk', s => { const queue = out(s); rule(s, new t.AwsApi({ service: 'SQS', action: 'sendMessage', parameters: { QueueUrl: queue.queueUrl, MessageBody: 'made' } })); queue.grantSendMessages(new iam.Role(s, 'Other', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') })); });
  S('ev-firehose-input', s => { const d = delivery(s, bk(s)); rule(s, new t.FirehoseDeliveryStream(d, { message: ev.RuleTargetInput.fromEventPath('$.detail') })); });
  S('ev-sfn-input', s => rule(s, new t.SfnStateMachine(queueMachine(s), { input: ev.RuleTargetInput.fromObject({ n: ev.EventField.fromPath('$.detail.a') }), deadLetterQueue: q(s, 'Dlq') })));
  S('ev-bus-policy', s => { const b = new ev.EventBus(s, 'Bus', { eventBusName: s.stackName, description: 'd' }); b.addToResourcePolicy(new iam.PolicyStatement({ sid: 'x', principals: [new iam.AccountPrincipal('111111111111')], actions: ['events:PutEvents'], resources: [b.eventBusArn] })); new ev.Rule(s, 'R', { eventBus: b, eventPattern: { source: [s.stackName] }, targets: [new t.SqsQueue(q(s))] }); });
  S('ev-codebuild', s => rule(s, new t.CodeBuildProject(new codebuild.Project(s, 'P', { buildSpec: codebuild.BuildSpec.fromObject({ version: '0.2', phases: { build: { commands: ['true'] } } }) }))));
  S('ev-ecs', s => { const v = new ec2.Vpc(s, 'V', { maxAzs: 1, natGateways: 0 }); const c = new ecs.Cluster(s, 'C', { vpc: v }); const d = new ecs.FargateTaskDefinition(s, 'D'); d.addContainer('x', { image: ecs.ContainerImage.fromRegistry('busybox') }); new ev.Rule(s, 'R', { schedule: ev.Schedule.rate(cdk.Duration.days(1)), targets: [new t.EcsTask({ cluster: c, taskDefinition: d, subnetSelection: { subnetType: ec2.SubnetType.PUBLIC } })] }); });
  S('ev-cron', s => new ev.Rule(s, 'R', { schedule: ev.Schedule.cron({ minute: '*' }), targets: [new t.LambdaFunction(fn(s))] }));

  // --- schedules ----------------------------------------------------------------------------------
  const schedule = (s, target, more = {}) => new sch.Schedule(s, 'X', { schedule: minute, target, ...more });
  S('sch-sfn', s => schedule(s, new scht.StepFunctionsStartExecution(queueMachine(s), { input: sch.ScheduleTargetInput.fromObject({ a: 1 }) })));
  S('sch-firehose', s => schedule(s, new scht.FirehosePutRecord(delivery(s, bk(s)), { input: sch.ScheduleTargetInput.fromText('tick') })));
  S('sch-sns', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(out(s))); schedule(s, new scht.SnsPublish(to, { input: sch.ScheduleTargetInput.fromText('tick') })); });
  S('sch-events', s => { const b = new ev.EventBus(s, 'Bus', { eventBusName: s.stackName }); new ev.Rule(s, 'R', { eventBus: b, eventPattern: { source: ['me'] }, targets: [new t.SqsQueue(q(s))] }); schedule(s, new scht.EventBridgePutEvents({ eventBus: b, source: 'me', detailType: 'd', detail: sch.ScheduleTargetInput.fromObject({ a: 1 }) })); });
  S('sch-universal', s => schedule(s, new scht.Universal({ service: 'sqs', action: 'sendMessage', input: sch.ScheduleTargetInput.fromObject({ QueueUrl: q(s).queueUrl, MessageBody: 'tick' }), policyStatements: [new iam.PolicyStatement({ actions: ['sqs:SendMessage'], resources: ['*'] })] })));
  S('sch-group', s => { const g = new sch.ScheduleGroup(s, 'G', { scheduleGroupName: s.stackName }); schedule(s, new scht.SqsSendMessage(q(s), { deadLetterQueue: q(s, 'Dlq'), retryAttempts: 2, maxEventAge: cdk.Duration.hours(1) }), { scheduleGroup: g, timeWindow: sch.TimeWindow.off(), description: 'd' }); });

  // --- topics -------------------------------------------------------------------------------------
  S('sns-fifo', s => new sns.Topic(s, 'T', { topicName: `${s.stackName}.fifo`, fifo: true, contentBasedDeduplication: true }).addSubscription(new subs.SqsSubscription(new sqs.Queue(s, 'Q', { queueName: `${s.stackName}-q.fifo`, fifo: true }))));
  S('sns-attributes', s => topic(s).addSubscription(new subs.SqsSubscription(q(s), { filterPolicy: { n: sns.SubscriptionFilter.numericFilter({ greaterThan: 1 }), kind: sns.SubscriptionFilter.stringFilter({ matchPrefixes: ['a'] }) } })));
  S('sns-url', s => { const u = fn(s).addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); topic(s).addSubscription(new subs.UrlSubscription(u.url, { protocol: sns.SubscriptionProtocol.HTTP })); });
  S('sns-firehose-raw', s => { if (!subs.FirehoseSubscription && !subs.DataFirehoseSubscription) throw new Error('no such construct'); const d = delivery(s, bk(s)); topic(s).addSubscription(new (subs.FirehoseSubscription || subs.DataFirehoseSubscription)(d, { rawMessageDelivery: true })); });
  S('sns-email', s => { const to = topic(s); to.addSubscription(new subs.EmailSubscription('me@example.com')); to.addSubscription(new subs.SmsSubscription('+15555550100')); to.addSubscription(new subs.SqsSubscription(q(s), { deadLetterQueue: q(s, 'Dlq') })); });
  S('sns-key', s => new sns.Topic(s, 'T', { topicName: s.stackName, masterKey: new kms.Key(s, 'K', { removalPolicy: DESTROY }), displayName: 'd', tracingConfig: sns.TracingConfig.ACTIVE, enforceSSL: true, signatureVersion: '2' }).addSubscription(new subs.LambdaSubscription(fn(s))));

  // --- logs ---------------------------------------------------------------------------------------
  const group = s => new logs.LogGroup(s, 'L', { logGroupName: s.stackName, removalPolicy: DESTROY, retention: logs.RetentionDays.ONE_DAY });
  S('logs-metric', s => group(s).addMetricFilter('M', { filterPattern: logs.FilterPattern.literal('[ip, n]'), metricNamespace: 'ns', metricName: 'm', metricValue: '$n' }).metric().createAlarm(s, 'A', { threshold: 1, evaluationPeriods: 1 }));
  S('logs-pattern', s => group(s).addSubscriptionFilter('F', { destination: new ld.KinesisDestination(st(s)), filterPattern: logs.FilterPattern.anyTerm('hello', 'bye'), distribution: logs.Distribution.RANDOM }));
  S('logs-across', s => { const r = role(s, 'logs'); const s1 = st(s); s1.grantWrite(r); const d = new logs.CrossAccountDestination(s, 'D', { targetArn: s1.streamArn, role: r, destinationName: s.stackName }); d.addToPolicy(new iam.PolicyStatement({ principals: [new iam.AccountRootPrincipal()], actions: ['logs:PutSubscriptionFilter'], resources: ['*'] })); new logs.CfnSubscriptionFilter(s, 'F', { logGroupName: group(s).logGroupName, filterPattern: '', destinationArn: d.destinationArn }); });
  S('logs-query', s => new logs.QueryDefinition(s, 'Q', { queryDefinitionName: s.stackName, queryString: new logs.QueryString({ fields: ['@message'], limit: 1 }), logGroups: [group(s)] }));

  // --- Step Functions -----------------------------------------------------------------------------
  S('sfn-token', s => { const f = inline(s, 'F', 'import boto3\ndef h(e,c):\n  boto3.client("stepfunctions").send_task_success(taskToken=e["t"],output="{}")'); f.addToRolePolicy(new iam.PolicyStatement({ actions: ['states:SendTaskSuccess'], resources: ['*'] })); sm(s, new tasks.LambdaInvoke(s, 'I', { lambdaFunction: f, integrationPattern: sfn.IntegrationPattern.WAIT_FOR_TASK_TOKEN, payload: sfn.TaskInput.fromObject({ t: sfn.JsonPath.taskToken }) })); });
  S('sfn-table', s => { const table = tb(s); const key = { id: tasks.DynamoAttributeValue.fromString('x') }; sm(s, new tasks.DynamoPutItem(s, 'Put', { table, item: { ...key, n: tasks.DynamoAttributeValue.fromNumber(1) } }).next(new tasks.DynamoUpdateItem(s, 'Up', { table, key, updateExpression: 'SET n = n + :o', expressionAttributeValues: { ':o': tasks.DynamoAttributeValue.fromNumber(1) } })).next(new tasks.DynamoGetItem(s, 'Get', { table, key })).next(new tasks.DynamoDeleteItem(s, 'Del', { table, key }))); });
  S('sfn-glue', s => { const r = role(s, 'glue'); const job = new glue.CfnJob(s, 'J', { name: s.stackName, role: r.roleArn, command: { name: 'glueetl', scriptLocation: 's3://survey-sink/x.py' } }); const task = new tasks.GlueStartJobRun(s, 'I', { glueJobName: s.stackName }); sm(s, task).node.addDependency(job); });
  S('sfn-athena', s => sm(s, new tasks.AthenaStartQueryExecution(s, 'I', { queryString: 'SELECT 1', integrationPattern: sfn.IntegrationPattern.RUN_JOB, resultConfiguration: { outputLocation: { bucketName: 'survey-sink', objectKey: 'athena' } } })));
  S('sfn-emr', s => { const c = new tasks.EmrCreateCluster(s, 'C', { name: s.stackName, instances: { instanceFleets: [], instanceGroups: [{ instanceCount: 1, instanceRole: tasks.EmrCreateCluster.InstanceRoleType.MASTER, instanceType: 'm5.xlarge' }] }, applications: [{ name: 'Spark' }], releaseLabel: 'emr-7.9.0', integrationPattern: sfn.IntegrationPattern.RUN_JOB, resultPath: '$.c' }); sm(s, c.next(new tasks.EmrTerminateCluster(s, 'T', { clusterId: sfn.JsonPath.stringAt('$.c.ClusterId'), integrationPattern: sfn.IntegrationPattern.RUN_JOB }))); });
  S('sfn-catch', s => sm(s, new tasks.LambdaInvoke(s, 'I', { lambdaFunction: failing(s), retryOnServiceExceptions: false }).addRetry({ maxAttempts: 1, interval: second }).addCatch(new tasks.SqsSendMessage(s, 'Send', { queue: q(s), messageBody: sfn.TaskInput.fromJsonPathAt('$') }))));
  S('sfn-jsonata', s => sm(s, sfn.Pass.jsonata(s, 'P', { outputs: { n: '{% $states.input.n + 1 %}' } }).next(tasks.SqsSendMessage.jsonata(s, 'Send', { queue: q(s), messageBody: sfn.TaskInput.fromObject({ n: '{% $states.input.n %}' }) }))));
  S('sfn-distributed', s => { const b = bk(s); new s3d.BucketDeployment(s, 'Dep', { destinationBucket: b, sources: [s3d.Source.jsonData('items.json', [{ a: 1 }, { a: 2 }])] }); sm(s, new sfn.DistributedMap(s, 'Map', { itemReader: new sfn.S3JsonItemReader({ bucket: b, key: 'items.json' }) }).itemProcessor(new tasks.SqsSendMessage(s, 'Send', { queue: q(s), messageBody: sfn.TaskInput.fromJsonPathAt('$') }))); });
  S('sfn-objects', s => { const b = bk(s); sm(s, new tasks.CallAwsService(s, 'Put', { service: 's3', action: 'putObject', parameters: { Bucket: b.bucketName, Key: 'in/x', Body: { a: 1 } }, iamResources: [b.arnForObjects('*')], resultPath: sfn.JsonPath.DISCARD }).next(new tasks.CallAwsService(s, 'Get', { service: 's3', action: 'getObject', parameters: { Bucket: b.bucketName, Key: 'in/x' }, iamResources: [b.arnForObjects('*')] }))); });
  S('sfn-firehose', s => { const d = delivery(s, bk(s)); sm(s, new tasks.CallAwsService(s, 'Put', { service: 'firehose', action: 'putRecord', parameters: { DeliveryStreamName: d.deliveryStreamName, Record: { Data: sfn.JsonPath.format('{}', sfn.JsonPath.stringAt('$.n')) } }, iamResources: [d.deliveryStreamArn] })); });
  S('sfn-evaluate', s => sm(s, new tasks.EvaluateExpression(s, 'E', { expression: '$.n + 1', runtime: l.Runtime.NODEJS_22_X })));
  S('sfn-alias', s => { const machine = sm(s, new sfn.Pass(s, 'P')); const version = new sfn.CfnStateMachineVersion(s, 'V', { stateMachineArn: machine.stateMachineArn }); new sfn.CfnStateMachineAlias(s, 'A', { name: 'live', routingConfiguration: [{ stateMachineVersionArn: version.attrArn, weight: 100 }] }); });
  S('sfn-logs', s => new sfn.StateMachine(s, 'M', { stateMachineName: s.stackName, definitionBody: sfn.DefinitionBody.fromChainable(new sfn.Pass(s, 'P')), logs: { destination: group(s), level: sfn.LogLevel.ALL }, tracingEnabled: true }));
  S('sfn-file', s => new sfn.StateMachine(s, 'M', { stateMachineName: s.stackName, definitionBody: sfn.DefinitionBody.fromString(JSON.stringify({ StartAt: 'P', States: { P: { Type: 'Pass', End: true } } })) }));
  S('sfn-schedule', s => { const r = role(s, 'scheduler'); const q1 = q(s); q1.grantSendMessages(r); sm(s, new tasks.EventBridgeSchedulerCreateScheduleTask(s, 'I', { scheduleName: s.stackName, schedule: sch.ScheduleExpression.rate(cdk.Duration.days(1)), target: new tasks.EventBridgeSchedulerTarget({ arn: q1.queueArn, role: r }) })); });
  S('sfn-rest', s => { const a = new ag.LambdaRestApi(s, 'A', { handler: fn(s) }); sm(s, new tasks.CallApiGatewayRestApiEndpoint(s, 'I', { api: a, stageName: 'prod', method: tasks.HttpMethod.POST, requestBody: sfn.TaskInput.fromObject({ a: 1 }) })); });
  S('sfn-http', s => { const u = fn(s).addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); const c = new ev.Connection(s, 'C', { authorization: ev.Authorization.basic('me', cdk.SecretValue.unsafePlainText('v')) }); sm(s, new tasks.HttpInvoke(s, 'I', { apiRoot: u.url, apiEndpoint: sfn.TaskInput.fromText('x'), connection: c, method: sfn.TaskInput.fromText('POST'), body: sfn.TaskInput.fromObject({ a: 1 }) })); });

  // --- tables -------------------------------------------------------------------------------------
  const key = { partitionKey: { name: 'id', type: ddb.AttributeType.STRING }, removalPolicy: DESTROY };
  S('ddb-kinesis', s => new ddb.Table(s, 'T', { tableName: s.stackName, ...key, kinesisStream: st(s), kinesisPrecisionTimestamp: ddb.ApproximateCreationDateTimePrecision.MILLISECOND }));
  S('ddb-v2-kinesis', s => new ddb.TableV2(s, 'T', { tableName: s.stackName, ...key, kinesisStream: st(s), billing: ddb.Billing.onDemand(), timeToLiveAttribute: 'ttl', pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true } }));
  S('ddb-kinesis-lambda', s => { const s1 = st(s); new ddb.Table(s, 'T', { tableName: s.stackName, ...key, kinesisStream: s1 }); fn(s).addEventSource(new es.KinesisEventSource(s1, { startingPosition: l.StartingPosition.TRIM_HORIZON })); });
  S('ddb-scaling', s => { const table = new ddb.Table(s, 'T', { tableName: s.stackName, ...key, billingMode: ddb.BillingMode.PROVISIONED }); table.autoScaleWriteCapacity({ minCapacity: 1, maxCapacity: 5 }).scaleOnUtilization({ targetUtilizationPercent: 70 }); table.addGlobalSecondaryIndex({ indexName: 'g', partitionKey: { name: 'g', type: ddb.AttributeType.STRING } }); });

  // --- buckets and custom resources ---------------------------------------------------------------
  S('s3-options', s => bk(s, { versioned: true, lifecycleRules: [{ expiration: cdk.Duration.days(1) }], enforceSSL: true, encryption: s3.BucketEncryption.S3_MANAGED, cors: [{ allowedMethods: [s3.HttpMethods.GET], allowedOrigins: ['*'] }], intelligentTieringConfigurations: [{ name: 'a' }] }).addObjectRemovedNotification(new n.SqsDestination(q(s)), { suffix: '.x' }));
  S('s3-site', s => new s3d.BucketDeployment(s, 'D', { destinationBucket: bk(s, { websiteIndexDocument: 'index.html' }), sources: [s3d.Source.asset(code('site')), s3d.Source.jsonData('config.json', { a: 1 })], destinationKeyPrefix: 'site', cacheControl: [s3d.CacheControl.maxAge(cdk.Duration.days(1))], prune: false }));
  S('cr-sdk-kinesis', s => { const s1 = st(s); new cr.AwsCustomResource(s, 'C', { installLatestAwsSdk: false, onCreate: { service: 'Kinesis', action: 'putRecord', parameters: { StreamName: s1.streamName, PartitionKey: 'a', Data: Buffer.from('hello').toString('base64') }, physicalResourceId: cr.PhysicalResourceId.fromResponse('SequenceNumber') }, onDelete: { service: 'Kinesis', action: 'listStreams' }, policy: cr.AwsCustomResourcePolicy.fromSdkCalls({ resources: ['*'] }) }); });
  S('cr-trigger-function', s => new triggers.TriggerFunction(s, 'T', { functionName: `${s.stackName}-t`, runtime: l.Runtime.PYTHON_3_13, handler: 'index.h', code: l.Code.fromAsset(code('python')), executeAfter: [st(s)], timeout: cdk.Duration.seconds(10) }));
  S('cr-waits', s => { const on = inline(s, 'On', 'def h(e, c): return {"PhysicalResourceId": "x", "Data": {"A": "b"}}'); const done = inline(s, 'Done', 'import boto3\ndef h(e, c):\n  p = boto3.client("ssm")\n  try:\n    p.get_parameter(Name="/cr-waits/seen")\n    return {"IsComplete": True, "Data": {"A": "c"}}\n  except p.exceptions.ParameterNotFound:\n    p.put_parameter(Name="/cr-waits/seen", Value="1", Type="String")\n    return {"IsComplete": False}'); done.addToRolePolicy(new iam.PolicyStatement({ actions: ['ssm:*'], resources: ['*'] })); const made = new cdk.CustomResource(s, 'C', { serviceToken: new cr.Provider(s, 'P', { onEventHandler: on, isCompleteHandler: done, queryInterval: second, totalTimeout: cdk.Duration.minutes(1) }).serviceToken }); new cdk.CfnOutput(s, 'O', { value: made.getAttString('A') }); });
  S('cr-cross-region', s => new ssm.StringListParameter(s, 'P', { stringListValue: ['a', 'b'] }));

  // --- API Gateway --------------------------------------------------------------------------------
  const aws = (s, service, action, template, more = {}) => { const r = role(s, 'apigateway'); const a = new ag.RestApi(s, 'A'); a.root.addMethod('POST', new ag.AwsIntegration({ service, action, options: { credentialsRole: r, requestTemplates: { 'application/json': template }, integrationResponses: [{ statusCode: '200' }], ...more } }), { methodResponses: [{ statusCode: '200' }] }); return r; };
  S('api-table', s => { const table = tb(s); table.grantWriteData(aws(s, 'dynamodb', 'PutItem', `{"TableName":"${s.stackName}","Item":{"id":{"S":"$context.requestId"}}}`)); });
  S('api-events', s => { const b = new ev.EventBus(s, 'Bus', { eventBusName: s.stackName }); new ev.Rule(s, 'R', { eventBus: b, eventPattern: { source: ['api'] }, targets: [new t.SqsQueue(q(s))] }); b.grantPutEventsTo(aws(s, 'events', 'PutEvents', `#set($context.requestOverride.header.X-Amz-Target = "AWSEvents.PutEvents")\n#set($context.requestOverride.header.Content-Type = "application/x-amz-json-1.1")\n{"Entries":[{"Source":"api","DetailType":"d","Detail":"$util.escapeJavaScript($input.body)","EventBusName":"${s.stackName}"}]}`)); });
  S('api-sns', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(q(s))); to.grantPublish(aws(s, 'sns', 'Publish', `Action=Publish&TopicArn=$util.urlEncode('arn:aws:sns:us-east-1:000000000000:${s.stackName}')&Message=$util.urlEncode($input.body)`, { requestParameters: { 'integration.request.header.Content-Type': "'application/x-www-form-urlencoded'" } })); });
  S('api-bucket', s => { const b = bk(s); const r = role(s, 'apigateway'); b.grantPut(r); const a = new ag.RestApi(s, 'A'); a.root.addMethod('POST', new ag.AwsIntegration({ service: 's3', integrationHttpMethod: 'PUT', path: `${s.stackName}/in/x`, options: { credentialsRole: r, integrationResponses: [{ statusCode: '200' }] } }), { methodResponses: [{ statusCode: '200' }] }); });
  S('api-firehose', s => { const d = delivery(s, bk(s)); d.grantPutRecords(aws(s, 'firehose', 'PutRecord', `{"DeliveryStreamName":"${s.stackName}","Record":{"Data":"$util.base64Encode($input.body)"}}`)); });
  S('api-machine', s => { const m = queueMachine(s, 'M', { stateMachineName: s.stackName }); m.grantStartExecution(aws(s, 'states', 'StartExecution', `{"stateMachineArn":"arn:aws:states:us-east-1:000000000000:stateMachine:${s.stackName}","input":"$util.escapeJavaScript($input.body)"}`)); });
  S('api-proxy-url', s => { const u = fn(s).addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); new ag.RestApi(s, 'A').root.addMethod('POST', new ag.HttpIntegration(u.url, { httpMethod: 'POST', proxy: true })); });
  S('api-authorizer', s => { const auth = inline(s, 'Auth', 'def h(e, c): return {"principalId": "me", "policyDocument": {"Version": "2012-10-17", "Statement": [{"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": "*"}]}}'); new ag.LambdaRestApi(s, 'A', { handler: fn(s), defaultMethodOptions: { authorizer: new ag.TokenAuthorizer(s, 'Au', { handler: auth }) } }); });
  S('api-model', s => { const a = new ag.RestApi(s, 'A', { deployOptions: { stageName: 'dev', metricsEnabled: true, throttlingRateLimit: 10, variables: { a: 'b' } } }); const model = a.addModel('Model', { contentType: 'application/json', schema: { type: ag.JsonSchemaType.OBJECT } }); a.root.addMethod('POST', new ag.LambdaIntegration(fn(s)), { requestModels: { 'application/json': model }, requestValidatorOptions: { validateRequestBody: true } }); a.addGatewayResponse('G', { type: ag.ResponseType.DEFAULT_4XX, responseHeaders: { 'Access-Control-Allow-Origin': "'*'" } }); });
  S('api-spec', s => { const f = fn(s); f.addPermission('P', { principal: new iam.ServicePrincipal('apigateway.amazonaws.com') }); new ag.SpecRestApi(s, 'A', { apiDefinition: ag.ApiDefinition.fromInline({ openapi: '3.0.1', info: { title: 't', version: '1' }, paths: { '/x': { post: { responses: {}, 'x-amazon-apigateway-integration': { type: 'aws_proxy', httpMethod: 'POST', uri: `arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/${f.functionArn}/invocations` } } } } }) }); });
  S('http-sfn', s => { const { HttpStepFunctionsIntegration } = require('aws-cdk-lib/aws-apigatewayv2-integrations'); const a = new ag2.HttpApi(s, 'A'); const m = queueMachine(s); a.addRoutes({ path: '/x', methods: [ag2.HttpMethod.POST], integration: new HttpStepFunctionsIntegration('I', { stateMachine: m }) }); });
  S('http-url', s => { const { HttpUrlIntegration } = require('aws-cdk-lib/aws-apigatewayv2-integrations'); const u = fn(s).addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); new ag2.HttpApi(s, 'A').addRoutes({ path: '/x', methods: [ag2.HttpMethod.POST], integration: new HttpUrlIntegration('I', u.url) }); });
  S('http-authorizer', s => { const { HttpLambdaIntegration } = require('aws-cdk-lib/aws-apigatewayv2-integrations'); const { HttpLambdaAuthorizer, HttpLambdaResponseType } = require('aws-cdk-lib/aws-apigatewayv2-authorizers'); const auth = inline(s, 'Auth', 'def h(e, c): return {"isAuthorized": True}'); new ag2.HttpApi(s, 'A').addRoutes({ path: '/x', methods: [ag2.HttpMethod.POST], integration: new HttpLambdaIntegration('I', fn(s)), authorizer: new HttpLambdaAuthorizer('Au', auth, { responseTypes: [HttpLambdaResponseType.SIMPLE] }) }); });
  S('http-kinesis', s => { const s1 = st(s); const r = role(s, 'apigateway'); s1.grantWrite(r); const a = new ag2.HttpApi(s, 'A'); const i = new ag2.CfnIntegration(s, 'I', { apiId: a.apiId, integrationType: 'AWS_PROXY', integrationSubtype: 'Kinesis-PutRecord', payloadFormatVersion: '1.0', credentialsArn: r.roleArn, requestParameters: { StreamName: s1.streamName, Data: '$request.body', PartitionKey: '$context.requestId' } }); new ag2.CfnRoute(s, 'R', { apiId: a.apiId, routeKey: 'POST /x', target: `integrations/${i.ref}` }); });
  S('http-stage', s => { const { HttpLambdaIntegration } = require('aws-cdk-lib/aws-apigatewayv2-integrations'); const a = new ag2.HttpApi(s, 'A', { createDefaultStage: false }); a.addRoutes({ path: '/x', methods: [ag2.HttpMethod.ANY], integration: new HttpLambdaIntegration('I', fn(s)) }); new ag2.HttpStage(s, 'St', { httpApi: a, stageName: 'dev', autoDeploy: true, throttle: { rateLimit: 10, burstLimit: 5 } }); });

  // --- EMR Serverless, OpenSearch -----------------------------------------------------------------
  S('emr-serverless', s => new emrs.CfnApplication(s, 'A', { releaseLabel: 'emr-7.9.0', type: 'Spark', name: s.stackName, autoStopConfiguration: { enabled: true, idleTimeoutMinutes: 15 } }));
  S('search-domain', s => new os.Domain(s, 'D', { version: os.EngineVersion.OPENSEARCH_2_19, removalPolicy: DESTROY, enforceHttps: true, nodeToNodeEncryption: true, encryptionAtRest: { enabled: true } }));

  // --- alpha packages -----------------------------------------------------------------------------
  const p = optional('@aws-cdk/aws-pipes-alpha');
  const pt = optional('@aws-cdk/aws-pipes-targets-alpha');
  const ps = optional('@aws-cdk/aws-pipes-sources-alpha');
  if (p && pt && ps) {
    const from = (s, target, more = {}) => new p.Pipe(s, 'P', { source: new ps.SqsSource(q(s), {}), target, ...more });
    const enrichment = (arn, grant) => ({ enrichmentArn: arn, grantInvoke: grant, bind: () => ({ enrichmentParameters: {} }) });
    S('pa-lambda', s => from(s, new pt.LambdaFunction(fn(s), {}), { filter: new p.Filter([p.FilterPattern.fromObject({ body: { a: [1] } })]) }));
    S('pa-queue', s => from(s, new pt.SqsTarget(out(s))));
    S('pa-kinesis', s => from(s, new pt.KinesisTarget(st(s), { partitionKey: 'a' })));
    S('pa-from-kinesis', s => new p.Pipe(s, 'P', { source: new ps.KinesisSource(st(s), { startingPosition: ps.KinesisStartingPosition.TRIM_HORIZON, batchSize: 10 }), target: new pt.SqsTarget(out(s)) }));
    S('pa-from-table', s => new p.Pipe(s, 'P', { source: new ps.DynamoDBSource(tb(s), { startingPosition: ps.DynamoDBStartingPosition.TRIM_HORIZON }), target: new pt.SqsTarget(out(s)) }));
    S('pa-sfn', s => from(s, new pt.SfnStateMachine(queueMachine(s), { invocationType: pt.StateMachineInvocationType.FIRE_AND_FORGET })));
    S('pa-events', s => { const b = new ev.EventBus(s, 'Bus', { eventBusName: s.stackName }); new ev.Rule(s, 'R', { eventBus: b, eventPattern: { source: ['pipe'] }, targets: [new t.SqsQueue(out(s))] }); from(s, new pt.EventBridgeTarget(b, { source: 'pipe', detailType: 'd' })); });
    S('pa-firehose', s => from(s, new pt.FirehoseTarget(delivery(s, bk(s)))));
    S('pa-logs', s => from(s, new pt.CloudWatchLogsTarget(new logs.LogGroup(s, 'L', { logGroupName: s.stackName, removalPolicy: DESTROY }))));
    S('pa-topic', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(out(s))); from(s, new pt.SnsTarget(to)); });
    S('pa-api', s => { const a = new ag.LambdaRestApi(s, 'A', { handler: fn(s) }); from(s, new pt.ApiGatewayTarget(a, { path: '/x', method: 'POST' })); });
    S('pa-destination', s => { const u = fn(s).addFunctionUrl({ authType: l.FunctionUrlAuthType.NONE }); const c = new ev.Connection(s, 'C', { authorization: ev.Authorization.apiKey('k', cdk.SecretValue.unsafePlainText('v')) }); from(s, new pt.ApiDestinationTarget(new ev.ApiDestination(s, 'D', { connection: c, endpoint: u.url }))); });
    S('pa-enrich-lambda', s => { const f = inline(s, 'E', 'def h(e, c): return [{"n": len(e)}]'); from(s, new pt.SqsTarget(out(s)), { enrichment: enrichment(f.functionArn, r => f.grantInvoke(r)) }); });
    S('pa-enrich-sfn', s => { const m = new sfn.StateMachine(s, 'E', { stateMachineType: sfn.StateMachineType.EXPRESS, definitionBody: sfn.DefinitionBody.fromChainable(new sfn.Pass(s, 'Pass')) }); from(s, new pt.SqsTarget(out(s)), { enrichment: enrichment(m.stateMachineArn, r => m.grantStartSyncExecution(r)) }); });
    S('pa-enrich-api', s => { const a = new ag.LambdaRestApi(s, 'A', { handler: inline(s, 'E', 'def h(e, c): return {"statusCode": 200, "body": "[{\\"n\\": 1}]"}') }); from(s, new pt.SqsTarget(out(s)), { enrichment: enrichment(a.arnForExecuteApi('POST', '/x', 'prod'), r => r) }); });
  }
  const ga = optional('@aws-cdk/aws-glue-alpha');
  if (ga) {
    S('glue-table', s => { const database = new ga.Database(s, 'D', { databaseName: 'glue_table' }); new ga.S3Table(s, 'T', { database, tableName: 'rows', columns: [{ name: 'id', type: ga.Schema.INTEGER }], partitionKeys: [{ name: 'day', type: ga.Schema.STRING }], dataFormat: ga.DataFormat.PARQUET, bucket: bk(s) }); });
    S('glue-job', s => { const job = new ga.PySparkStreamingJob(s, 'J', { role: role(s, 'glue'), script: ga.Code.fromAsset(code('python/index.py')) }); new ga.Connection(s, 'C', { type: ga.ConnectionType.NETWORK }); return job; });
  }
  const flink = optional('@aws-cdk/aws-kinesisanalytics-flink-alpha');
  if (flink) S('flink', s => new flink.Application(s, 'A', { code: flink.ApplicationCode.fromAsset(code('python')), runtime: flink.Runtime.FLINK_1_20, propertyGroups: { a: { b: 'c' } }, removalPolicy: DESTROY }));
  const iot = optional('@aws-cdk/aws-iot-alpha');
  const act = optional('@aws-cdk/aws-iot-actions-alpha');
  if (iot && act) {
    const on = (s, action) => new iot.TopicRule(s, 'R', { topicRuleName: s.stackName.replace(/-/g, '_'), sql: iot.IotSql.fromStringAsVer20160323(`SELECT *, topic(2) AS device FROM '${s.stackName}/+' WHERE n > 0`), actions: [action] });
    S('iot-kinesis', s => on(s, new act.KinesisPutRecordAction(st(s), { partitionKey: '${device}' })));
    S('iot-lambda', s => on(s, new act.LambdaFunctionAction(fn(s))));
    S('iot-firehose', s => on(s, new act.FirehosePutRecordAction(delivery(s, bk(s)), { recordSeparator: act.FirehoseRecordSeparator.NEWLINE })));
    S('iot-queue', s => on(s, new act.SqsQueueAction(q(s))));
    S('iot-topic', s => { const to = topic(s); to.addSubscription(new subs.SqsSubscription(q(s))); on(s, new act.SnsTopicAction(to, { messageFormat: act.SnsActionMessageFormat.RAW })); });
    S('iot-bucket', s => on(s, new act.S3PutObjectAction(bk(s), { key: 'in/${topic(2)}' })));
    S('iot-table', s => on(s, new act.DynamoDBv2PutItemAction(tb(s))));
    S('iot-logs', s => on(s, new act.CloudWatchLogsAction(new logs.LogGroup(s, 'L', { logGroupName: s.stackName, removalPolicy: DESTROY }))));
    S('iot-sfn', s => on(s, new act.StepFunctionsStateMachineAction(queueMachine(s))));
  }
  const factories = optional('@aws-solutions-constructs/aws-constructs-factories');
  if (factories) S('sc-constructs-factories', s => { const f = new factories.ConstructsFactories(s, 'F'); f.s3BucketFactory('b', {}); f.sqsQueueFactory('q', {}); });
};
