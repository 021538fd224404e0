"""EMR Serverless: applications whose job runs are real Spark processes on this machine."""
