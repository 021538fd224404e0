// Answers CloudFormation for a custom resource: `response.send(event, context, response.SUCCESS, {})`.
exports.SUCCESS = 'SUCCESS';
exports.FAILED = 'FAILED';

exports.send = (event, context, responseStatus, responseData, physicalResourceId, noEcho) => new Promise((resolve) => {
  const body = JSON.stringify({
    Status: responseStatus,
    Reason: `See the details in CloudWatch Log Stream: ${context.logStreamName}`,
    PhysicalResourceId: physicalResourceId || context.logStreamName,
    StackId: event.StackId,
    RequestId: event.RequestId,
    LogicalResourceId: event.LogicalResourceId,
    NoEcho: noEcho || false,
    Data: responseData,
  });
  const address = new URL(event.ResponseURL);
  const web = require(address.protocol === 'http:' ? 'http' : 'https');
  // The address is signed without a content type.
  const headers = { 'content-type': '', 'content-length': Buffer.byteLength(body) };
  const end = (said) => {
    console.log(said);
    resolve(context);
    if (typeof context.done === 'function') context.done();
  };
  const request = web.request(address, { method: 'PUT', headers }, (answer) => {
    answer.resume();
    end(`Status code: ${answer.statusCode}`);
  });
  request.on('error', (error) => end(`send(..) failed executing the request: ${error}`));
  request.end(body);
});
