// The OpenAPI document as the explorer reads it: operations by tag, and schemas with what they refer to.
import { counted } from "../text/counted";

export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  example?: unknown;
  default?: unknown;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean | Schema;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header" | "cookie";
  required?: boolean;
  description?: string;
  schema?: Schema;
}

interface Content {
  description?: string;
  content?: Record<string, { schema?: Schema; example?: unknown }>;
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  tag: string;
  summary: string;
  description?: string;
  parameters: Parameter[];
  body?: Schema;
  answers: { status: string; description: string; type: string | null; schema?: Schema }[];
  /** The role that it takes, and whether a token must not be confined to projects. */
  needs: string[];
}

export interface ApiDocument {
  info: { title: string; version: string; description?: string };
  paths: Record<string, Record<string, unknown>>;
  components: { schemas: Record<string, Schema> };
}

const METHODS = ["get", "post", "put", "patch", "delete"];

interface RawOperation {
  operationId?: string;
  tags?: string[];
  summary?: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: Content;
  responses?: Record<string, Content>;
  security?: Record<string, string[]>[];
}

export function operations(document: ApiDocument): Operation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => method in item).map((method) => {
      const raw = item[method] as RawOperation;
      return {
        id: raw.operationId ?? `${method} ${path}`,
        method: method.toUpperCase(),
        path,
        tag: raw.tags?.[0] ?? "other",
        summary: raw.summary ?? "",
        description: raw.description,
        parameters: raw.parameters ?? [],
        body: raw.requestBody?.content?.["application/json"]?.schema,
        answers: Object.entries(raw.responses ?? {}).flatMap(([status, answer]): Operation["answers"] => {
          const kinds = Object.entries(answer.content ?? {});
          const description = answer.description ?? "";
          if (kinds.length === 0) return [{ status, description, type: null }];
          return kinds.map(([type, { schema }]) => ({ status, description, type, schema }));
        }),
        needs: [...new Set((raw.security ?? []).flatMap((one) => Object.values(one).flat()))],
      };
    }),
  );
}

export function nameOf(schema: Schema): string | null {
  return schema.$ref?.split("/").pop() ?? null;
}

export function resolve(schema: Schema, document: ApiDocument): Schema {
  const name = nameOf(schema);
  return (name && document.components.schemas[name]) || schema;
}

/** What a value may be, in a word or two. */
export function typeOf(schema: Schema, document: ApiDocument): string {
  const name = nameOf(schema);
  if (name) {
    const found = document.components.schemas[name];
    return found && !found.properties && !found.allOf ? `${name} (${typeOf(found, document)})` : name;
  }
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.map((one) => typeOf(one, document)).join(" or ");
  const types = [schema.type ?? (schema.properties ? "object" : "any")].flat();
  return types
    .map((type) =>
      type === "array" && schema.items ? `array of ${typeOf(schema.items, document)}` : schema.format && type !== "null" ? `${type}, ${schema.format}` : type,
    )
    .join(" or ");
}

/** Bounds, choices and patterns, as far as there are any. */
export function limits(schema: Schema): string[] {
  const said: string[] = [];
  if (schema.enum) said.push(schema.enum.map((one) => JSON.stringify(one)).join(" | "));
  if (schema.minimum !== undefined) said.push(`at least ${schema.minimum}`);
  if (schema.maximum !== undefined) said.push(`at most ${schema.maximum}`);
  if (schema.minLength) said.push(`at least ${counted(schema.minLength, "character")}`);
  if (schema.maxLength) said.push(`at most ${counted(schema.maxLength, "character")}`);
  if (schema.pattern) said.push(schema.pattern);
  if (schema.default !== undefined) said.push(`default ${JSON.stringify(schema.default)}`);
  return said;
}

/** A value that fits a schema: its own example, or one made of its parts. Optional parts are left out unless they are asked for. */
export function exampleOf(schema: Schema, document: ApiDocument, whole = true, depth = 0): unknown {
  if (schema.example !== undefined) return schema.example;
  if (depth > 6) return null;
  const name = nameOf(schema);
  if (name) return exampleOf(resolve(schema, document), document, whole, depth + 1);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((one) => exampleOf(one, document, whole, depth + 1))) as unknown;
  const choice = (schema.oneOf ?? schema.anyOf)?.find((one) => one.type !== "null");
  if (choice) return exampleOf(choice, document, whole, depth + 1);
  if (schema.enum) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  const type = [schema.type ?? (schema.properties ? "object" : "")].flat().find((one) => one !== "null");
  switch (type) {
    case "object": {
      const required = new Set(schema.required ?? []);
      const parts = Object.entries(schema.properties ?? {}).filter(([part]) => whole || required.has(part));
      return Object.fromEntries(parts.map(([part, inner]) => [part, exampleOf(inner, document, whole, depth + 1)]));
    }
    case "array":
      return schema.items && depth < 5 ? [exampleOf(schema.items, document, whole, depth + 1)] : [];
    case "string":
      return schema.format === "date-time" ? "2026-01-31T09:00:00Z" : "text";
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    default:
      return null;
  }
}

/** The address of an operation with its parameters filled in; what is empty is left out. */
export function addressOf(operation: Operation, values: Record<string, string>): string {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  const query = new URLSearchParams();
  for (const { name, in: where } of operation.parameters) if (where === "query" && values[name]) query.set(name, values[name]);
  return query.size > 0 ? `${path}?${query}` : path;
}

/** The same request for a terminal. */
export function curlOf(operation: Operation, address: string, headers: Record<string, string>, body: string | null): string {
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl -X ${operation.method} ${quoted(address)}`, `-H ${quoted("Authorization: Bearer $HARVEST_TOKEN").replaceAll("'", '"')}`];
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== null) parts.push(`--data ${quoted(body)}`);
  return parts.join(" \\\n  ");
}
