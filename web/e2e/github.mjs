// GitHub as a browser meets it: a page that asks whether to let Harvest in, and the few calls that the server makes afterwards.
// It keeps GitHub's rules: a code works once, and only with the verifier that fits its challenge.
import { createHash, randomUUID } from "node:crypto";
import { createServer } from "node:http";

export const CLIENT_ID = "Iv1.0123456789abcdef";
export const CLIENT_SECRET = "0123456789abcdef0123456789abcdef01234567";

export class GitHub {
  /** Who sits at the keyboard, and whether the organisation knows them. */
  person = { login: "Ada", id: 7 };
  member = true;
  codes = new Map();
  tokens = new Map();

  async start() {
    this.server = createServer((request, response) => {
      let body = "";
      request.on("data", (part) => {
        body += part;
      });
      request.on("end", () => this.answer(request, new URLSearchParams(body), response));
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    // Another site than 127.0.0.1, so that cookies are held to the rules for other sites.
    this.url = `http://localhost:${this.server.address().port}`;
    return this;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  answer(request, form, response) {
    const { pathname, searchParams: query } = new URL(request.url, this.url);
    const send = (status, body, headers = {}) => {
      response.writeHead(status, { "content-type": typeof body === "string" ? "text/html; charset=utf-8" : "application/json", ...headers });
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    };
    if (pathname === "/login/oauth/authorize") return this.ask(query, send);
    if (pathname === "/decide") return this.decide(query, send);
    if (pathname === "/login/oauth/access_token") return send(200, this.grant(form));
    const person = this.tokens.get((request.headers.authorization ?? "").replace(/^Bearer /, ""));
    if (!person) return send(401, { message: "Bad credentials" });
    if (pathname === "/api/v3/user") return send(200, person);
    if (pathname === "/api/v3/user/memberships/orgs/orchard" && this.member) return send(200, { state: "active", role: "member" });
    return send(404, { message: "Not Found" });
  }

  ask(query, send) {
    if (query.get("client_id") !== CLIENT_ID || query.get("code_challenge_method") !== "S256") return send(404, "<h1>Not found</h1>");
    const kept = ["redirect_uri", "state", "code_challenge"].map((name) => `<input type="hidden" name="${name}" value="${query.get(name)}">`).join("");
    const button = (value, text) => `<button name="decision" value="${value}">${text}</button>`;
    return send(
      200,
      `<!doctype html><title>Authorize Harvest</title><h1>Harvest wants to access your ${this.person.login} account</h1>
      <form action="/decide">${kept}${button("no", "Cancel")}${button("yes", "Authorize harvest")}</form>`,
    );
  }

  decide(query, send) {
    const back = new URL(query.get("redirect_uri"));
    back.searchParams.set("state", query.get("state"));
    if (query.get("decision") === "yes") {
      const code = randomUUID();
      this.codes.set(code, { challenge: query.get("code_challenge"), redirect: query.get("redirect_uri") });
      back.searchParams.set("code", code);
    } else {
      back.searchParams.set("error", "access_denied");
    }
    return send(302, "", { location: back.href });
  }

  grant(form) {
    const known = this.codes.get(form.get("code"));
    this.codes.delete(form.get("code"));
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const fits = known?.challenge === challenge && known.redirect === form.get("redirect_uri");
    if (form.get("client_secret") !== CLIENT_SECRET || !fits) return { error: "bad_verification_code", error_description: "The code is incorrect or expired." };
    const token = `ghu_${randomUUID()}`;
    this.tokens.set(token, { ...this.person });
    return { access_token: token, token_type: "bearer", scope: "" };
  }
}
