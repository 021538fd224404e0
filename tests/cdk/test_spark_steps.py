from __future__ import annotations

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Match, Template

from cdk.app import build


def analytics(steps: str) -> Template:
    app = cdk.App(context={"spark_steps": steps}, analytics_reporting=False)
    return Template.from_stack(build(app)[-1])


def test_the_jobs_named_in_the_context_are_steps_with_their_package() -> None:
    template = analytics("rolling_delays,cascades")

    template.resource_count_is("AWS::EMR::Step", 2)
    template.has_resource_properties(
        "AWS::EMR::Step",
        {
            "Name": "cascades",
            "HadoopJarStep": {
                "Args": Match.array_with(["spark-submit", "--py-files", "--checkpoint"])
            },
        },
    )


def test_a_job_that_is_none_is_refused() -> None:
    # Through jsii the sentence stays the same; the kind of error need not.
    with pytest.raises(Exception, match="A step by context is one of"):
        analytics("departing")
