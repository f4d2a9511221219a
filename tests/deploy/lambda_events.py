"""The events of AWS for one HTTP request, with the members that AWS documents."""

import base64
import json
from collections.abc import Mapping
from typing import Any

HOST = "abcdefghij.lambda-url.eu-central-1.on.aws"


def version_2(method: str, path: str, headers: Mapping[str, str], body: Any, host: str) -> dict[str, Any]:
    """The payload format 2.0."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {name.lower(): value for name, value in headers.items()}
        | {
            "host": host,
            "x-forwarded-for": "198.51.100.7",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
        },
        "requestContext": {
            "accountId": "anonymous",
            "apiId": host.partition(".")[0],
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "198.51.100.7",
                "userAgent": "test",
            },
            "requestId": "e1506fd5-9e7b-434f-bd42-4f8fa224b599",
            "routeKey": "$default",
            "stage": "$default",
            "time": "19/Nov/2026:20:00:00 +0000",
            "timeEpoch": 1795118400000,
        },
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def function_url(method: str, path: str, headers: Mapping[str, str], body: Any) -> dict[str, Any]:
    """A function URL. It encodes the body when it likes to; clients of MCP see that with compressed bodies."""
    event = version_2(method, path, headers, body, HOST)
    return event | {"body": base64.b64encode(event["body"].encode()).decode(), "isBase64Encoded": True}


def http_api(method: str, path: str, headers: Mapping[str, str], body: Any) -> dict[str, Any]:
    """An HTTP API of API Gateway."""
    return version_2(method, path, headers, body, "abcdefghij.execute-api.eu-central-1.amazonaws.com")


def rest_api(method: str, path: str, headers: Mapping[str, str], body: Any) -> dict[str, Any]:
    """A REST API of API Gateway with proxy integration: the payload format 1.0."""
    host = "abcdefghij.execute-api.eu-central-1.amazonaws.com"
    every = {**headers, "Host": host, "X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": every,
        "multiValueHeaders": {name: [value] for name, value in every.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdefghij",
            "domainName": host,
            "httpMethod": method,
            "identity": {"sourceIp": "198.51.100.7", "userAgent": "test"},
            "path": f"/prod{path}",
            "protocol": "HTTP/1.1",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "resourcePath": "/{proxy+}",
            "stage": "prod",
        },
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }
