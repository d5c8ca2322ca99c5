import "./ui/theme";
import "./style.css";
import { MutationCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Refused, whenSignedOut } from "./api/client";
import { forgetSession } from "./api/forget-session";
import { makeRouter } from "./router";

const client: QueryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server refuses it refuses again; what it could not do it may do a moment later.
      retry: (count, error) => count < 2 && !(error instanceof Refused && error.problem.status >= 400 && error.problem.status < 500),
    },
  },
  mutationCache: new MutationCache({ onSuccess: () => void client.invalidateQueries() }),
});
whenSignedOut(() => forgetSession(client));

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={makeRouter()} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
