// What NodejsFunction bundles: a function that keeps its event, by the AWS SDK that Lambda's runtime has.
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';

const s3 = new S3Client({});

export async function handler(event: unknown, context: { functionName: string; awsRequestId: string }) {
  const key = `${context.functionName}/${context.awsRequestId}`;
  await s3.send(new PutObjectCommand({ Bucket: 'survey-sink', Key: key, Body: JSON.stringify(event) }));
  return { statusCode: 200, body: 'ok' };
}
