"""Running `spark-submit` on this machine: what EMR's steps and EMR Serverless' job runs have in common."""
