"""Private names of the originals that ours do not have: nothing here calls what a program puts there.

Methods of classes and functions of modules that ours have, too, in SDK 1.30, FastMCP 2.14 and FastMCP 3.4, read from
their sources. What is not in this table and is put onto a class of ours is the program's own.
"""

from typing import Final

PRIVATE: Final = {
    "fastmcp.client.auth.oauth": "_format_callback_host_for_url _normalize_callback_host_for_bind",
    "fastmcp.client.auth.oauth.OAuth": "_bind _initialize",
    "fastmcp.client.client.Client": """
        _await_with_session_monitoring _call_tool_as_task _connect _context_manager _disconnect
        _get_prompt_as_task _handle_task_status_notification _parse_call_tool_result _read_resource_as_task
        _reset_session_state _session_runner""",
    "fastmcp.client.roots": "_create_roots_callback_from_fn _create_roots_callback_from_roots",
    "fastmcp.client.tasks.Task": "_check_client_connected _handle_status_notification _wait_terminal",
    "fastmcp.client.transports": "_enter_server_lifespan _stdio_transport_connect_task",
    "fastmcp.client.transports.ClientTransport": "_set_auth",
    "fastmcp.client.transports.SSETransport": "_set_auth",
    "fastmcp.client.transports.StreamableHttpTransport": "_set_auth",
    "fastmcp.prompts.base.Prompt": "_render",
    "fastmcp.prompts.base.PromptResult": "_normalize_messages",
    "fastmcp.prompts.prompt.FunctionPrompt": "_convert_string_arguments",
    "fastmcp.resources.base.Resource": "_read",
    "fastmcp.resources.base.ResourceResult": "_normalize_contents",
    "fastmcp.resources.template.FunctionResourceTemplate": "_read",
    "fastmcp.resources.template.ResourceTemplate": "_read",
    "fastmcp.resources.types.DirectoryResource": "_async_path",
    "fastmcp.resources.types.FileResource": "_async_path",
    "fastmcp.server.auth.auth.AuthProvider": "_get_resource_url",
    "fastmcp.server.auth.oauth_proxy": "_hash_token",
    "fastmcp.server.auth.oauth_proxy.OAuthProxy": """
        _build_upstream_authorize_url _cookie_name _decode_list_cookie _encode_list_cookie _generate_pkce_pair
        _handle_consent _handle_idp_callback _make_client_key _normalize_uri
        _prepare_scopes_for_upstream_refresh _set_list_cookie _show_consent_page _sign_cookie _submit_consent
        _verify_cookie""",
    "fastmcp.server.auth.oauth_proxy.models": """
        _hash_token _is_loopback_host _matches_registered_loopback_redirect_uri _matches_registered_redirect_uri
        _redirect_uri_path""",
    "fastmcp.server.auth.oidc_proxy.OIDCProxy": "_get_verification_token _uses_alternate_verification",
    "fastmcp.server.auth.providers.azure": "_find_azure_provider _require_azure_identity",
    "fastmcp.server.auth.providers.azure.AzureProvider": """
        _build_upstream_authorize_url _extract_upstream_claims _prefix_scopes_for_azure
        _prepare_scopes_for_token_exchange _prepare_scopes_for_upstream_refresh _translate_scopes_from_idp""",
    "fastmcp.server.auth.providers.google": "_normalize_google_scope",
    "fastmcp.server.auth.providers.introspection.IntrospectionTokenVerifier": """
        _create_basic_auth_header _extract_scopes""",
    "fastmcp.server.auth.providers.jwt": """
        _has_unsupported_critical_headers _import_key_for_algorithm _jwk_to_pem _looks_like_pem_public_key""",
    "fastmcp.server.auth.providers.jwt.JWTVerifier": """
        _extract_scopes _fetch_jwks _get_jwks_key _get_verification_key _refresh_jwks_key""",
    "fastmcp.server.auth.ssrf": "_build_fetch_targets _configured_proxy_url _embedded_ipv4_addresses",
    "fastmcp.server.context": """
        _create_final_response_tool _extract_text_from_content _extract_tool_calls _log_to_server_and_client
        _prepare_messages _prepare_tools""",
    "fastmcp.server.context.Context": """
        _elicit_for_task _flush_notifications _get_session_transforms _make_state_key _paginate_list
        _queue_prompt_list_changed _queue_resource_list_changed _queue_tool_list_changed""",
    "fastmcp.server.dependencies": """
        _clear_signature_caches _find_kwarg_by_type _resolve_fastmcp_dependencies""",
    "fastmcp.server.elicitation": """
        _apply_value_metadata _dict_to_enum_schema _is_scalar_type _parse_dict_syntax _parse_generic_list
        _parse_list_syntax _parse_scalar_type""",
    "fastmcp.server.http": """
        _format_origin_host _host_matches _host_origin_guard_middleware _is_loopback_host _is_unspecified_host
        _normalize_host _normalize_origin _origin_host _origin_matches _origin_port _request_origin""",
    "fastmcp.server.low_level.MiddlewareServerSession": "_received_request",
    "fastmcp.server.middleware.error_handling.ErrorHandlingMiddleware": "_log_error _transform_error",
    "fastmcp.server.middleware.error_handling.RetryMiddleware": "_calculate_delay",
    "fastmcp.server.middleware.rate_limiting.RateLimitingMiddleware": "_get_client_identifier",
    "fastmcp.server.middleware.rate_limiting.SlidingWindowRateLimitingMiddleware": "_get_client_identifier",
    "fastmcp.server.middleware.timing.DetailedTimingMiddleware": "_time_operation",
    "fastmcp.server.providers.base": "_listed_name",
    "fastmcp.server.providers.base.Provider": "_check_hashed_target _get_tool_by_hash",
    "fastmcp.server.providers.fastmcp_provider.FastMCPProvider": "_get_tool_by_hash",
    "fastmcp.server.providers.openapi.provider.OpenAPIProvider": """
        _create_default_client _create_openapi_resource _create_openapi_template _create_openapi_tool
        _generate_default_name _get_unique_name""",
    "fastmcp.server.providers.openapi.routing": "_determine_route_type",
    "fastmcp.server.providers.proxy": """
        _create_client_factory _make_restoring_handler _proxy_upstream_error _restore_request_context""",
    "fastmcp.server.providers.proxy.FastMCPProxy": "_get_client _setup_proxy_ping_handler",
    "fastmcp.server.providers.proxy.ProxyPrompt": "_get_client",
    "fastmcp.server.providers.proxy.ProxyProvider": "_get_client",
    "fastmcp.server.providers.proxy.ProxyResource": "_get_client",
    "fastmcp.server.providers.proxy.ProxyTemplate": "_get_client",
    "fastmcp.server.providers.proxy.ProxyTool": "_get_client",
    "fastmcp.server.providers.proxy.StatefulProxyClient": "_bind_restoring_handlers",
    "fastmcp.server.server": """
        _check_removed_kwargs _component_auth_allows _get_auth_context _is_app_visible _is_backend_tool
        _lifespan_proxy _version_request_meta""",
    "fastmcp.server.server.FastMCP": """
        _apply_middleware _call_tool _call_tool_middleware _check_hashed_target _docket_lifespan
        _get_injected_tool _get_prompt_middleware _get_resource_or_template_or_none _get_tool_with_task_config
        _handle_deprecated_settings _injected_tools _list_prompts_mcp _list_prompts_middleware
        _list_resource_templates_mcp _list_resource_templates_middleware _list_resources_mcp
        _list_resources_middleware _list_tools_middleware _lookup_resource _read_resource
        _read_resource_middleware _register_mounted_server_functions _rewrite_prefab_uris _run_middleware
        _setup_get_prompt_handler _setup_handlers _setup_read_resource_handler _setup_task_protocol_handlers
        _should_enable_component""",
    "fastmcp.server.transforms.namespace.Namespace": """
        _reverse_name _reverse_uri _transform_name _transform_uri""",
    "fastmcp.server.transforms.search.base": """
        _extract_searchable_text _invoke_serializer _schema_section _schema_type _union_type""",
    "fastmcp.server.transforms.search.bm25": "_catalog_hash _tokenize",
    "fastmcp.server.transforms.search.bm25.BM25SearchTransform": "_make_search_tool _search",
    "fastmcp.server.transforms.search.regex.RegexSearchTransform": "_make_search_tool _search",
    "fastmcp.server.transforms.visibility.Visibility": "_mark_component _matches",
    "fastmcp.tools.base": """
        _convert_to_content _convert_to_single_content_block _get_fastmcp_app_name _get_tool_resolver
        _prefab_to_json _prefab_to_tool_result _serialize_with_fallback""",
    "fastmcp.tools.base.Tool": "_ensure_tool _run _validate_tool_name",
    "fastmcp.tools.function_tool": "_resolve_param_hints _wrap_body_errors",
    "fastmcp.tools.function_tool.FunctionTool": "_execute _materialize_generator",
    "fastmcp.tools.tool": """
        _convert_to_content _convert_to_single_content_block _is_object_schema _serialize_with_fallback""",
    "fastmcp.tools.tool.Tool": "_validate_tool_name",
    "fastmcp.tools.tool_transform": "_set_visibility_metadata",
    "fastmcp.tools.tool_transform.TransformedTool": """
        _apply_single_transform _create_forwarding_transform _function_has_kwargs _merge_schema_with_precedence""",
    "fastmcp.utilities.components": "_coerce_version _convert_set_default_none",
    "fastmcp.utilities.logging": "_clamp_logger _unclamp_logger",
    "fastmcp.utilities.types.Image": "_get_expanded_path",
    "mcp.client.auth.extensions.client_credentials": """
        _checked_issuer _preferred_authorization_server _require_metadata_for_configured_issuer""",
    "mcp.client.auth.extensions.client_credentials.ClientCredentialsOAuthProvider": """
        _exchange_token_client_credentials _initialize _perform_authorization _select_authorization_server""",
    "mcp.client.auth.extensions.client_credentials.PrivateKeyJWTOAuthProvider": """
        _add_client_authentication_jwt _exchange_token_client_credentials _initialize _perform_authorization
        _select_authorization_server""",
    "mcp.client.auth.oauth2": "_origin_issuer",
    "mcp.client.auth.oauth2.OAuthClientProvider": """
        _add_auth_header _auth_flow _exchange_token_authorization_code _expected_issuer _get_token_endpoint
        _handle_oauth_metadata_response _handle_protected_resource_response _handle_refresh_response
        _handle_token_response _initialize _perform_authorization _perform_authorization_code_grant
        _refresh_token _select_authorization_server _validate_resource_match""",
    "mcp.client.session": """
        _default_elicitation_callback _default_list_roots_callback _default_logging_callback
        _default_message_handler _default_sampling_callback""",
    "mcp.client.session.ClientSession": """
        _handle_incoming _received_notification _received_request _validate_tool_result""",
    "mcp.client.session_group.ClientSessionGroup": "_aggregate_components _component_name _establish_session",
    "mcp.client.sse": "_extract_session_id_from_endpoint",
    "mcp.client.stdio": "_create_platform_compatible_process _get_executable_command _terminate_process_tree",
    "mcp.client.streamable_http": "_raise_for_unfollowed_redirect _unfollowed_redirect",
    "mcp.server.auth.middleware.bearer_auth.BearerAuthBackend": "_issued_for_this_resource",
    "mcp.server.auth.middleware.bearer_auth.RequireAuthMiddleware": "_send_auth_error",
    "mcp.server.auth.routes": "_body_limited _cors",
    "mcp.server.auth.settings.AuthSettings": "_check_validate_token_resource",
    "mcp.server.elicitation": "_is_primitive_field _is_string_sequence _validate_elicitation_schema",
    "mcp.server.experimental.task_context.ServerTaskContext": """
        _check_elicitation_capability _check_sampling_capability _send_notification""",
    "mcp.server.fastmcp.tools.base": "_is_async_callable",
    "mcp.server.fastmcp.utilities.func_metadata": """
        _convert_to_content _create_dict_model _create_model_from_class _create_model_from_typeddict
        _create_wrapped_model _inline_root_ref _try_create_model_and_schema""",
    "mcp.server.lowlevel.experimental.ExperimentalHandlers": """
        _register_default_task_handlers _requestor_session_scope _require_task_in_requestor_scope""",
    "mcp.server.lowlevel.server": "_ping_handler",
    "mcp.server.lowlevel.server.Server": """
        _get_cached_tool_definition _handle_message _handle_notification _handle_request _make_error_result""",
    "mcp.server.session.ServerSession": """
        _build_create_message_request _build_elicit_form_request _build_elicit_url_request _experimental
        _handle_incoming _receive_loop _received_notification _received_request""",
    "mcp.server.sse.SseServerTransport": "_handle_post_message",
    "mcp.server.streamable_http_manager": "_error_response _send_and_report_status",
    "mcp.server.streamable_http_manager.StreamableHTTPSessionManager": """
        _admit_session _discard_session _handle_request _handle_stateful_request _handle_stateless_request
        _serve_opening_request""",
    "mcp.server.transport_security.TransportSecurityMiddleware": """
        _validate_content_type _validate_host _validate_origin""",
    "mcp.shared._httpx_utils": "_within_origin",
    "mcp.shared.auth.OAuthClientMetadata": "_empty_string_optional_url_to_none",
    "mcp.shared.experimental.tasks.in_memory_task_store.InMemoryTaskStore": """
        _calculate_expiry _cleanup_expired _is_expired""",
    "mcp.shared.experimental.tasks.message_queue.InMemoryTaskMessageQueue": "_get_queue",
    "mcp.shared.session.BaseSession": """
        _handle_incoming _handle_response _normalize_request_id _receive_loop _received_notification
        _received_request _send_response""",
}
