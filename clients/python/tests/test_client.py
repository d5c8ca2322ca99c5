"""Against a real server: HARVEST_TEST_URL, HARVEST_TEST_TOKEN (an admin's) and HARVEST_TEST_REPOSITORY say which."""

import os
import typing
import unittest

from harvest_client import Harvest, Problem, models

URL = os.environ["HARVEST_TEST_URL"]
REPOSITORY = os.environ["HARVEST_TEST_REPOSITORY"]


def server() -> Harvest:
    return Harvest(URL, os.environ["HARVEST_TEST_TOKEN"])


class Tasks(unittest.TestCase):
    def test_a_task_is_given_followed_and_looked_at(self) -> None:
        harvest = server()
        ask: models.Ask = {"prompt": "Make the failing test pass", "repository": REPOSITORY, "priority": "high"}
        task = harvest.task_create(ask, idempotency_key="one")
        again = harvest.task_create(ask, idempotency_key="one")
        self.assertEqual(task["id"], again["id"])
        session = task["sessions"][0]["id"]
        events = list(harvest.follow(session))
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[-1]["type"], "task.finished")
        self.assertEqual(list(harvest.follow(session, after=len(events) - 1))[0], events[-1])
        done = harvest.task_get(task["id"])
        self.assertEqual((done["status"], done["priority"]), ("completed", "high"))
        self.assertIn("+echo two", harvest.session_diff(session)["diff"])
        page = harvest.task_list(status="completed", q="failing", limit=1)
        self.assertEqual([one["id"] for one in page["items"]], [task["id"]])

    def test_what_comes_is_what_the_types_say(self) -> None:
        harvest = server()
        harvest.task_create({"prompt": "Something", "repository": REPOSITORY})
        known = typing.get_type_hints(models.ListedTask)
        for task in harvest.task_list()["items"]:
            self.assertLessEqual(set(task), set(known))
            self.assertLessEqual(models.ListedTask.__required_keys__, set(task))
        self.assertEqual(harvest.me_get()["role"], "admin")

    def test_settings_are_changed_by_who_has_read_them(self) -> None:
        harvest = server()
        harvest.project_create({"name": "orchard", "repositories": []})
        with self.assertRaises(Problem) as refused:
            harvest.project_settings_put("orchard", {"settings": {"budget_usd": 3}})
        self.assertEqual((refused.exception.status, refused.exception.code), (428, "HV-0608"))
        changed = harvest.project_settings_put("orchard", {"settings": {"budget_usd": 3}}, if_match='"1"')
        self.assertEqual(changed["settings"], {"budget_usd": 3})
        self.assertIsNone(harvest.project_remove("orchard"))


class Refusals(unittest.TestCase):
    def test_a_problem_has_a_code_and_a_way_out(self) -> None:
        with self.assertRaises(Problem) as refused:
            server().task_create({"prompt": "", "repository": REPOSITORY})
        problem = refused.exception
        self.assertEqual((problem.status, problem.code, problem.field), (400, "HV-0111", "prompt"))
        self.assertTrue(problem.help)
        with self.assertRaises(Problem) as unknown:
            server().task_get("../tokens")
        self.assertEqual(unknown.exception.status, 404)

    def test_who_has_no_token_is_told_so(self) -> None:
        with self.assertRaises(Problem) as refused:
            Harvest(URL, "hv_wrong").task_list()
        self.assertEqual((refused.exception.status, refused.exception.code), (401, "HV-0601"))
        with self.assertRaises(ValueError):
            Harvest("127.0.0.1:7070", "hv_x")


if __name__ == "__main__":
    unittest.main()
