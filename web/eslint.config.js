// Lint rules of the page, its end-to-end tests and its scripts: `npm run lint`, which is part of `make check`.
import { defineConfig, globalIgnores } from "eslint/config";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default defineConfig(
  globalIgnores(["dist", "src/api/schema.ts"]),
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: { eqeqeq: ["error", "always", { null: "ignore" }] },
  },
  {
    files: ["src/**/*.{ts,tsx}", "vite.config.ts"],
    extends: [tseslint.configs.strictTypeChecked, reactHooks.configs.flat["recommended-latest"]],
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["vite.config.ts"] }, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "no-console": ["error", { allow: ["warn", "error"] }],
      "react-hooks/exhaustive-deps": "error",
      // An event handler may be a single call: `onClick={() => setOpen(false)}`.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    // These lists keep what they have measured and merged in refs, and read it while they are drawn: state would draw a journal
    // of 100,000 events twice.
    files: ["src/pages/task-list.tsx", "src/session/rows.ts", "src/session/stream.tsx"],
    rules: { "react-hooks/refs": "off" },
  },
  {
    // A test fails with whatever it takes for granted.
    files: ["src/**/*.test.ts"],
    rules: { "@typescript-eslint/no-non-null-assertion": "off" },
  },
  {
    files: ["**/*.{js,mjs}"],
    extends: [tseslint.configs.strict],
  },
);
