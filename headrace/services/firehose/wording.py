"""Where Firehose takes more than AWS: servers of this machine, by plain HTTP. Refusals are in AWS's words."""

from headrace.aws.protocols.validate import Wording

# AWS takes https alone, and of HTTP endpoints port 443 alone.
_HERE = r"http://([^/@]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/].*)?"

_JDBC = (
    r"jdbc:(redshift|postgresql)://((?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)+(redshift(-serverless)?)\.([a-zA-Z0-9\.\-]+)"
    r":\d{1,5}/[a-zA-Z0-9_$-]+"
)

WORDING = Wording(
    shapes={
        "HttpEndpointUrl": {"pattern": rf"https://.*|{_HERE}", "shown": "https://.*"},
        "ElasticsearchClusterEndpoint": {"pattern": rf"https:.*|{_HERE}", "shown": "https:.*"},
        "AmazonopensearchserviceClusterEndpoint": {
            "pattern": rf"https:.*|{_HERE}",
            "shown": "https:.*",
        },
        "AmazonOpenSearchServerlessCollectionEndpoint": {
            "pattern": rf"https:.*|{_HERE}",
            "shown": "https:.*",
        },
        # An address as clusters show it here.
        "ClusterJDBCURL": {
            "pattern": rf"{_JDBC}|jdbc:(redshift|postgresql)://(localhost|127\.0\.0\.1):\d{{1,5}}/[a-zA-Z0-9_$-]+",
            "shown": _JDBC,
        },
    },
    shows_whole=False,
)
