// Two stacks as a stranger writes them: a stream, and the function that reads it. CASE names them; the context sets variants.
const cdk = require('aws-cdk-lib');
const { aws_ec2: ec2, aws_iam: iam, aws_kinesis: kinesis, aws_lambda: lambda, aws_lambda_event_sources: sources, aws_sqs: sqs,
  aws_ssm: ssm, aws_stepfunctions: states } = cdk;

const name = process.env.CASE;
const app = new cdk.App({ analyticsReporting: false });
const has = (key) => app.node.tryGetContext(key) !== undefined;
const env = { account: '000000000000', region: 'us-east-1' };

const streams = new cdk.Stack(app, `${name}-stream`, { env, tags: { team: 'streaming' } });
const shards = new cdk.CfnParameter(streams, 'Shards', { type: 'Number', default: 1, minValue: 1, maxValue: 4 });
const looked = has('lookup') ? Number(ssm.StringParameter.valueFromLookup(streams, app.node.tryGetContext('lookup'))) || 1 : shards.valueAsNumber;
const stream = new kinesis.Stream(streams, 'Stream', {
  streamName: name, shardCount: looked, removalPolicy: cdk.RemovalPolicy.DESTROY,
  retentionPeriod: cdk.Duration.hours(has('longer') ? 48 : 24),
});
new cdk.CfnOutput(streams, 'StreamName', { value: stream.streamName });
if (has('queue')) {
  new sqs.Queue(streams, app.node.tryGetContext('queue'), { queueName: `${name}-queue`, removalPolicy: app.node.tryGetContext('retain') ? cdk.RemovalPolicy.RETAIN : cdk.RemovalPolicy.DESTROY });
}
if (has('broken')) {
  new cdk.CfnResource(streams, 'Broken', { type: 'AWS::SQS::Queue', properties: { QueueName: `${name}-broken`, DelaySeconds: 99999 } });
}

if (!has('alone')) {
  const readers = new cdk.Stack(app, `${name}-reader`, { env });
  const reader = new lambda.Function(readers, 'Reader', {
    functionName: `${name}-reader`, runtime: lambda.Runtime.PYTHON_3_12, handler: 'index.handler',
    code: lambda.Code.fromAsset('function'), timeout: cdk.Duration.seconds(10),
  });
  reader.addToRolePolicy(new iam.PolicyStatement({ actions: ['s3:PutObject'], resources: ['*'] }));
  reader.addEventSource(new sources.KinesisEventSource(stream, { startingPosition: lambda.StartingPosition.TRIM_HORIZON }));
}
for (let number = 0; number < Number(app.node.tryGetContext('more') ?? 0); number++) {
  new sqs.Queue(new cdk.Stack(app, `${name}-more-${number}`, { env }), 'Queue');
}
if (has('machine')) {
  new states.StateMachine(new cdk.Stack(app, `${name}-machine`, { env }), 'Machine', {
    stateMachineName: `${name}-machine`, definitionBody: states.DefinitionBody.fromString(JSON.stringify({
      StartAt: 'Only', States: { Only: { Type: 'Pass', Result: app.node.tryGetContext('machine'), End: true } },
    })),
  });
}
if (has('network')) {
  new ec2.Vpc(new cdk.Stack(app, `${name}-network`, { env }), 'Network', { maxAzs: 2, natGateways: 0 });
}
if (has('image')) {
  new lambda.DockerImageFunction(new cdk.Stack(app, `${name}-image`, { env }), 'Image', { code: lambda.DockerImageCode.fromImageAsset('function') });
}
app.synth();
