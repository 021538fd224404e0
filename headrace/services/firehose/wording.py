"""Where Firehose takes more than AWS: servers of this machine by plain HTTP. Refusals are in AWS's words."""

from headrace.aws.validate import Wording

# AWS takes https alone, and of HTTP endpoints port 443 alone.
_HERE = r"http://([^/@]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/].*)?"

WORDING = Wording(
    shapes={
        "HttpEndpointUrl": {"pattern": rf"https://.*|{_HERE}", "said": "https://.*"},
        "ElasticsearchClusterEndpoint": {"pattern": rf"https:.*|{_HERE}", "said": "https:.*"},
        "AmazonopensearchserviceClusterEndpoint": {
            "pattern": rf"https:.*|{_HERE}",
            "said": "https:.*",
        },
        "AmazonOpenSearchServerlessCollectionEndpoint": {
            "pattern": rf"https:.*|{_HERE}",
            "said": "https:.*",
        },
    },
    shows_whole=False,
)
