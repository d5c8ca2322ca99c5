// What a session costs, call by call, as the gateway counted it.
import type { SchemaTask } from "../api/schema";
import type { Journal } from "../stream/journal";
import { money } from "../stream/sums";
import { counted } from "../text/counted";
import { Empty, Meter, Table } from "../ui/parts";
import { clock, exact, took } from "../ui/time";
import { useNowAndThen } from "./journal";
import { Part, Section } from "./part";

const MOST_CALLS = 500;

export function CostTab({ task, journal }: { task: SchemaTask; journal: Journal }) {
  useNowAndThen(journal);
  const { bill } = journal.fold;
  const spent = Math.max(task.cost_usd, bill.total);
  if (bill.calls.length === 0)
    return (
      <Part label="Cost">
        <Empty title="No costs yet" icon="chart">
          Every model call is counted at the gateway and listed here.
        </Empty>
      </Part>
    );
  const newest = bill.calls.slice(-MOST_CALLS).reverse();
  const models = [...bill.models];
  return (
    <Part label="Cost">
      <div className="card p-3">
        <p className="flex items-baseline justify-between gap-2">
          <span className="text-lg font-semibold tabular-nums">{money(spent)}</span>
          <span className="text-dim">of {money(task.budget_usd)} budget</span>
        </p>
        <Meter part={task.budget_usd > 0 ? spent / task.budget_usd : 0} label="Budget used" />
        <p className="mt-2 flex flex-wrap gap-x-4 text-dim tabular-nums">
          <span>{counted(bill.calls.length, "call")}</span>
          <span>{counted(bill.input, "token")} in</span>
          <span>{bill.output.toLocaleString()} out</span>
          <span>{bill.cached.toLocaleString()} cached</span>
        </p>
      </div>
      {models.length > 1 && (
        <Section title="By model">
          <Table
            label="Cost by model"
            rows={models}
            id={([name]) => name}
            columns={[
              { name: "Model", cell: ([name]) => name },
              { name: "Calls", number: true, cell: ([, sum]) => sum.calls.toLocaleString() },
              { name: "In", number: true, minor: true, cell: ([, sum]) => sum.input.toLocaleString() },
              { name: "Out", number: true, minor: true, cell: ([, sum]) => sum.output.toLocaleString() },
              { name: "Cost", number: true, cell: ([, sum]) => money(sum.cost) },
            ]}
          />
        </Section>
      )}
      <Section title="All calls">
        {newest.length < bill.calls.length && (
          <p className="text-dim">
            The newest {newest.length} of {bill.calls.length.toLocaleString()} calls
          </p>
        )}
        <Table
          label="Model calls"
          rows={newest}
          id={(row) => row.seq}
          columns={[
            {
              name: "Time",
              minor: true,
              cell: (row) => (
                <time dateTime={row.at} title={exact(row.at)} className="tabular-nums">
                  {clock(row.at)}
                </time>
              ),
            },
            {
              name: "Model",
              cell: (row) => (
                <span>
                  {row.model} <span className="text-dim">{row.provider}</span>
                </span>
              ),
            },
            { name: "In", number: true, cell: (row) => row.input.toLocaleString() },
            { name: "Out", number: true, cell: (row) => row.output.toLocaleString() },
            { name: "Cached", number: true, minor: true, cell: (row) => row.cached.toLocaleString() },
            { name: "Duration", number: true, minor: true, cell: (row) => (row.took === null ? "" : took(row.took)) },
            {
              name: "Cost",
              number: true,
              cell: (row) => (
                <span title={row.estimated ? "Estimated: the vendor reported no usage, or the price is unknown" : undefined}>
                  {row.estimated ? "≈ " : ""}
                  {money(row.cost)}
                </span>
              ),
            },
            { name: "Total", number: true, minor: true, cell: (row) => money(row.total) },
          ]}
        />
      </Section>
    </Part>
  );
}
