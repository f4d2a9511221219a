"""The bounds of authorization, of clients and of verifiers; `dovetail.settings` has those that all share."""

from __future__ import annotations

from typing import Final

AUTHORIZATION_SERVERS: Final = 16
"""Issuers of one server that are looked at."""
METADATA_SIZE: Final = 256 << 10
"""Bytes of a metadata document, and of any other answer of an authorization server."""
AUTHORIZATION_SECONDS: Final = 20.0
"""Seconds one request of a flow may take, its answer included."""
ERROR_WORDS: Final = 200
"""Characters that are shown of what an authorization server says about a refusal."""
LOGIN_SECONDS: Final = 300.0
"""Seconds a user has to log in."""
LOGIN_PAUSE: Final = 60.0
"""Seconds after a login that failed in which calls do not open the browser again: they fail with the same reason."""
CALLBACK_SIZE: Final = 16 << 10
"""Bytes of the request that a browser comes back with."""
CALLBACK_CONNECTIONS: Final = 32
"""Connections to the loopback port at once while a login is under way."""
CALLBACK_WAIT: Final = 10.0
"""Seconds one of them has to say what it wants."""
STEP_UPS: Final = 2
"""How often the same scopes are asked for because a server did not find them sufficient."""
STEP_UPS_KEPT: Final = 64
"""Different sets of scopes that a server may ask for one after the other."""
SERVERS_AUTHORIZED: Final = 1000
"""Servers that one authorization object remembers; the one used longest ago is forgotten."""
RENEWAL_MARGIN: Final = 30.0
"""Seconds before its end at which a token is renewed; a tenth of its lifetime where that is less."""
DEVICE_INTERVAL: Final = 5.0
"""Seconds between two questions whether the user has typed in the code (RFC 8628)."""
DEVICE_SECONDS: Final = 1800.0
"""Seconds that a device code is waited for, whatever its lifetime."""
ASSERTION_SECONDS: Final = 60.0
"""Seconds for which a signed assertion of ours is good."""
TOKEN_SIZE: Final = 64 << 10
"""Characters of a token; it goes with every request."""
EXCHANGED_SECONDS: Final = 300.0
"""Seconds for which an exchanged token is used whose end nobody said."""
REFUSALS_KEPT: Final = 1000
"""Tokens of callers of which it is remembered, for `REFUSED_SECONDS`, that nothing is given for them."""
STORE_LOCK_POLL: Final = 0.05
"""Seconds between two looks whether another process has renewed a token."""
NONCES_KEPT: Final = 64
"""Origins whose nonce for proofs is remembered."""
NONCE_LENGTH: Final = 1024
"""Characters of such a nonce."""

# --- verifiers ------------------------------------------------------------------------------------------------

TOKENS_VERIFIED: Final = 10_000
TOKENS_VERIFIED_BYTES: Final = 32 << 20
"""Tokens that one verifier remembers, and the bytes, as JSON, of what was said about all of them."""
FOREVER: Final = 1e15
"""Seconds since the epoch; no token says anything about a later moment."""
REFUSED_SECONDS: Final = 10.0
"""Seconds a token or key that was not found is remembered, so that asking again and again costs nobody else."""
DOCUMENT_BYTES: Final = 512 << 10
"""Bytes of a key set, of metadata, and of the answer of an introspection."""
DOCUMENT_SECONDS: Final = 10.0
"""Seconds one of them may take, from the connection to the last byte."""
KEYS_SECONDS: Final = 600.0
"""Seconds after which a key set is fetched again, although nothing seems to be missing."""
KEYS_PATIENCE: Final = 1.0
"""Seconds that a caller waits for newer keys while there are older ones."""
KEYS_READ: Final = 64
"""Keys of one set that are read."""
KEYS_TRIED: Final = 8
"""Keys that are tried on a token that names none."""
KEY_REFRESHES: Final = 5
"""Fetches of a key set in a row because of unknown keys; then one each `REFUSED_SECONDS`."""
PROOF_SECONDS: Final = 300.0
"""Seconds by which the ``iat`` of a DPoP proof may be before or after the server's time (SEP-1932)."""
PROOF_NONCE_SECONDS: Final = 300.0
"""Seconds for which a nonce of the server is accepted in DPoP proofs."""
PROOF_SIZE: Final = 8 << 10
"""Characters of a proof."""
PROOFS_KEPT: Final = 500_000
"""Proofs that are remembered; only those of callers with a good token are."""
INTROSPECTION_SECONDS: Final = 60.0
"""Seconds for which the answer of an introspection is believed, if the token lives that long."""
INTROSPECTIONS: Final = 64
"""Questions to one introspection endpoint at once; a caller more is asked to come back."""

# --- proxies in front of a provider -----------------------------------------------------------------------------

CONSENT_SECONDS: Final = 600.0
"""Seconds a user has for the consent page and the provider's login together, each."""
LOGINS_WAITING: Final = 2_000
"""Users who have agreed and are at the provider, of one process: of one more the oldest begins again of the address
that has most."""
LOGINS_OF_USER: Final = 32
"""Logins of one user; of one more the one used longest ago is over."""
LOGINS_KEPT: Final = 3_000
"""Logins that a proxy without a store keeps in its memory; of one more the one used longest ago is over of the user
who has most."""
CODE_SECONDS: Final = 60.0
"""Seconds for which a code of ours may be redeemed, once."""
ACCESS_SECONDS: Final = 3600.0
"""Seconds that an access token of ours lives, unless the provider's ends before and cannot be renewed."""
REFRESH_SECONDS: Final = 30 * 86400.0
"""Seconds after its last use at which a login ends for good."""
REMEMBERED_SECONDS: Final = 10.0
"""Seconds for which a token of ours is believed without a look into the store; revocations are told at once."""
PAGE_BYTES: Final = 64 << 10
"""Bytes of a form or registration that is posted to us."""
CLIENT_BYTES: Final = 1500
"""Bytes of what a client registers: all of it travels in its client_id."""
REDIRECT_URIS: Final = 16
"""Redirect URIs of one client."""
PARAMETER_LENGTH: Final = 4096
"""Characters of one parameter of an authorization or token request."""
CLIENT_DOCUMENT_BYTES: Final = 16 << 10
"""Bytes of a Client ID Metadata Document."""
CLIENT_DOCUMENTS: Final = 1000
"""Client ID Metadata Documents that are remembered, and as many that are none."""
CLIENT_DOCUMENT_SECONDS: Final = 300.0
"""Seconds for which they are."""
CLIENT_DOCUMENT_FETCHES: Final = 64
CLIENT_DOCUMENT_FETCHES_OF_HOST: Final = 4
"""Fetches of such documents at once, and from one host; a login more is asked to come back."""
PROVIDER_LEASE: Final = 30.0
"""Seconds for which one process alone renews what the provider gave for a login."""
RENEWAL_POLL: Final = 0.05
"""Seconds between two looks whether it has."""
CLAIMS_BYTES: Final = 16 << 10
"""Bytes of what a provider says about a user that are kept."""
