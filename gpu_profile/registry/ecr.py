"""Amazon ECR's API: tokens, repositories, digests.

The only module of the package outside analysis that uses boto3. boto3 is imported by the first
request, because its import is slow.
"""

import base64
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_profile.engine.api import Auth
from gpu_profile.errors import RegistryError, did_you_mean
from gpu_profile.registry.address import Registry

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_UNKNOWN = {
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "AuthFailure",
}
_DENIED = {"AccessDeniedException", "AccessDenied", "UnauthorizedOperation"}
# https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html
_ATTEMPTS = 6


def _open_ecr(registry: Registry) -> Any:  # noqa: ANN401 - boto3 has no types
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        # botocore waits 60 s for each: six attempts would take minutes before a word.
        connect_timeout=10,
        read_timeout=30,
    )
    return boto3.Session().client("ecr", region_name=registry.region, config=config)


@contextlib.contextmanager
def _convert_errors(registry: Registry, action: str) -> Iterator[None]:
    """Turn boto3's exceptions in the body into RegistryError."""
    import botocore.exceptions

    try:
        yield
    except botocore.exceptions.ClientError as error:
        fields = error.response.get("Error", {})
        raise _make_registry_error(
            registry, action, fields.get("Code", ""), fields.get("Message", "")
        ) from error
    except (
        botocore.exceptions.EndpointConnectionError,
        botocore.exceptions.ConnectTimeoutError,
        botocore.exceptions.ConnectionClosedError,
    ) as error:
        raise RegistryError(
            f"No ECR answers for the region {registry.region} ({action})", _hint_at_region(registry)
        ) from error
    except botocore.exceptions.NoCredentialsError as error:
        hint = "Set AWS_PROFILE, or log in with `aws sso login`"
        raise RegistryError("There are no AWS credentials here", hint) from error
    except botocore.exceptions.BotoCoreError as error:
        raise RegistryError(f"{action}: {error}", "See the AWS configuration here") from error


def _hint_at_region(registry: Registry) -> str:
    import boto3

    regions = boto3.Session().get_available_regions("ecr")
    if registry.region in regions:
        return "See that this network reaches AWS, and AWS_ENDPOINT_URL where it is set"
    return did_you_mean(registry.region, regions) or "REGISTRY names the region"


def _make_registry_error(registry: Registry, action: str, code: str, message: str) -> RegistryError:
    if code in _EXPIRED:
        return RegistryError("The AWS session has expired", "Renew it, as with `aws sso login`")
    if code in _UNKNOWN:
        return RegistryError(
            f"AWS does not know these credentials ({code})", "See AWS_PROFILE and AWS_* here"
        )
    if code in _DENIED:
        return RegistryError(
            f"AWS does not allow {action}: {message}", "Ask for a policy that does"
        )
    if "Throttl" in code or code == "TooManyRequestsException":
        return RegistryError(f"AWS throttles {action} after {_ATTEMPTS} tries", "Try again later")
    where = f"{registry.account} in {registry.region}"
    return RegistryError(f"{action} of {where}: {message or code}", "See REGISTRY and IMAGE")


def fetch_authorization(registry: Registry) -> Auth | None:
    """Return ECR's user and password, valid for 12 hours; None for other registries.

    Their credentials are those that `docker login` stored. Raises RegistryError if AWS refuses.
    """
    if not registry.is_ecr:
        return None
    with _convert_errors(registry, "ecr:GetAuthorizationToken"):
        answer = _open_ecr(registry).get_authorization_token()
    token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
    username, _, password = token.partition(":")
    return Auth(username=username, password=password, server=registry.host)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """An ECR repository. `is_new`: this call has created it."""

    immutable: bool
    is_new: bool = False


def ensure_repository(
    registry: Registry, name: str, *, immutable: bool = True, scan: bool = True
) -> Repository:
    """Return the ECR repository. Creates it with these settings if it is missing."""
    client = _open_ecr(registry)
    with _convert_errors(registry, "ecr:DescribeRepositories"):
        try:
            response = client.describe_repositories(
                registryId=registry.account, repositoryNames=[name]
            )
            # With immutability exclusions only ECR can tell which tags are immutable: none is
            # assumed to be.
            mutability = response["repositories"][0].get("imageTagMutability")
            return Repository(immutable=mutability == "IMMUTABLE")
        except client.exceptions.RepositoryNotFoundException:
            pass
    with _convert_errors(registry, "ecr:CreateRepository"):
        # Another push may have made it since it was asked for.
        with contextlib.suppress(client.exceptions.RepositoryAlreadyExistsException):
            client.create_repository(
                registryId=registry.account,
                repositoryName=name,
                imageTagMutability="IMMUTABLE" if immutable else "MUTABLE",
                imageScanningConfiguration={"scanOnPush": scan},
            )
        return Repository(immutable=immutable, is_new=True)


def tag_digest(registry: Registry, name: str, tag: str) -> str:
    """Return ECR's digest of this tag; empty if the tag is free."""
    client = _open_ecr(registry)
    with _convert_errors(registry, "ecr:DescribeImages"):
        try:
            response = client.describe_images(
                registryId=registry.account,
                repositoryName=name,
                imageIds=[{"imageTag": tag}],
            )
        except client.exceptions.ImageNotFoundException:
            return ""
    return str(response["imageDetails"][0]["imageDigest"])
