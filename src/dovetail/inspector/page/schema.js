// References and combinations inside one JSON Schema.
export function resolve(schema, root, hops = 8) {
  if (schema === null || typeof schema !== "object") return {};
  while (hops-- > 0 && typeof schema.$ref === "string" && schema.$ref.startsWith("#")) {
    const { $ref, ...beside } = schema;
    let target = root;
    for (const part of $ref.slice(1).split("/").filter(Boolean)) target = target?.[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")];
    schema = { ...(typeof target === "object" && target ? target : {}), ...beside };
  }
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...rest } = schema;
    for (const part of allOf.map((one) => resolve(one, root, hops))) {
      schema = { ...part, ...rest, properties: { ...part.properties, ...rest.properties }, required: [...(part.required ?? []), ...(rest.required ?? [])] };
      Object.assign(rest, schema);
    }
    if (!Object.keys(schema.properties ?? {}).length) delete schema.properties;
  }
  return schema;
}
