"""OpenSearch Serverless, on moto: what moto lacks."""
