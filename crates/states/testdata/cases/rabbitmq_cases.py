"""The message broker RabbitMQ."""

import itertools

from record_calls import Each, Raise

CASES = []
FAILURE = Raise("RabbitMQ command failed: node is down")


def add(state, answers, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": {"rabbitmq." + name: answer for name, answer in answers.items()},
                      "args": list(args), "kwargs": kwargs, "test": test, "crash": True})


for status in ("Cluster status\nrabbit@host\n", "rabbit@other", FAILURE):
    for joined in ({"Join": "Clustering node"}, {"Error": "failed"}, {}, FAILURE):
        for fun in ("join", "joined"):
            answers = {"cluster_status": status, "join_cluster": joined}
            add("rabbitmq_cluster." + fun, answers, "any", "host")
            add("rabbitmq_cluster." + fun, answers, "any", "host", user="other", ram_node=True, runas=None)

for enabled in (True, False, FAILURE):
    for done in ({"Enabled": "x"}, FAILURE):
        for more in ({}, {"runas": "rabbitmq"}):
            add("rabbitmq_plugin.enabled", {"plugin_is_enabled": enabled, "enable_plugin": done}, "name", **more)
            add("rabbitmq_plugin.disabled", {"plugin_is_enabled": enabled, "disable_plugin": done}, "name", **more)

for exists in (True, False, FAILURE):
    for done in ("Added", "Deleted", "Error", "Odd"):
        add("rabbitmq_vhost.present", {"vhost_exists": exists, "add_vhost": {done: "told"}}, "/v")
        add("rabbitmq_vhost.absent", {"vhost_exists": exists, "delete_vhost": {done: "told"}}, "/v")
    add("rabbitmq_vhost.present", {"vhost_exists": exists, "add_vhost": FAILURE}, "/v")

# Salt looks for a key that is never there, ours for the one that is: here both are.
POLICY = {"pattern": ".*", "apply_to": "all", "apply-to": "all", "definition": '{"ha-mode": "all"}', "priority": "0"}
for policies in ({}, {"/": {"HA": POLICY}}, {"/": {"HA": {**POLICY, "priority": "5", "definition": ""}}}, {"/": {"HA": {}}},
                 {"/v": {"HA": POLICY}, "/": {"other": POLICY}}, FAILURE):
    for done in ({"Set": "told"}, {"Error": "failed"}, {}, FAILURE):
        for more in ({}, {"priority": 5}, {"priority": "0"}, {"vhost": "/v", "runas": "rabbitmq"}, {"apply_to": "all"}, {"apply_to": "queues"}):
            answers = {"list_policies": policies, "set_policy": done}
            add("rabbitmq_policy.present", answers, "HA", ".*", '{"ha-mode":"all"}', **more)
        add("rabbitmq_policy.present", answers, "HA", "^x", '{"ha-mode":"none"}', priority=True)
        add("rabbitmq_policy.present", answers, "HA", ".*", "")
for exists in (True, False, FAILURE):
    for done in ({"Deleted": "told"}, {"Error": "failed"}, {}, FAILURE):
        for more in ({}, {"vhost": "/v", "runas": "rabbitmq"}):
            add("rabbitmq_policy.absent", {"policy_exists": exists, "delete_policy": done}, "HA", **more)

ONE = '{"uri":"amqp://h","ack-mode":"on-confirm","max-hops":1,"trust-user-id":false}'
for upstreams in ({}, {"up": ONE}, {"up": '{"uri":["amqp://h"],"queue":"q"}'}, {"other": ONE}, {"up": '{"uri":"amqp://h"}'}, FAILURE):
    for done in (True, False, FAILURE):
        answers = {"list_upstreams": upstreams, "set_upstream": done}
        add("rabbitmq_upstream.present", answers, "up", "amqp://h")
        add("rabbitmq_upstream.present", answers, "up", "amqp://h", ack_mode="on-confirm", max_hops=1, trust_user_id=False, expires=0)
        add("rabbitmq_upstream.present", answers, "up", ["amqp://h"], prefetch_count=5, reconnect_delay=1, exchange="e", message_ttl=9,
            ha_policy="all", queue="q", runas="rabbitmq")
for exists in (True, False, FAILURE):
    for done in (True, False, FAILURE):
        for more in ({}, {"runas": "rabbitmq"}):
            add("rabbitmq_upstream.absent", {"upstream_exists": exists, "delete_upstream": done}, "up", **more)

FINE = {
    "user_exists": True, "check_password": True, "add_user": {"Added": "x"}, "change_password": {"Password Changed": "x"},
    "clear_password": {"Password Cleared": "x"}, "list_users": {"ann": ["admin"], "guest": [""]}, "set_user_tags": {"Tag(s) set": "x"},
    "list_user_permissions": {"/": {"configure": ".*", "write": ".*", "read": ".*"}}, "set_permissions": {"Permissions Set": "x"},
}
ALL = [".*", ".*", ".*"]
WISHES = (
    {}, {"password": "pw"}, {"force": True}, {"password": "pw", "force": True}, {"tags": ["admin"]}, {"tags": "admin other"}, {"tags": []},
    {"tags": ["a", "a"], "force": True}, {"perms": [{"/": ALL}]}, {"perms": [{"/": ["", "", ""]}]}, {"perms": [{"/v": ALL}]},
    {"perms": [{"/": ["a", ".*", ".*"]}, {"/v": ALL}, {"/w": ALL}]}, {"perms": [{"/": ALL, "/v": ALL}], "tags": ["x"], "password": "pw"},
    {"password": "pw", "tags": ["admin"], "perms": [{"/": ALL}], "force": True, "runas": "rabbitmq"}, {"perms": [], "tags": None},
)
for wish, exists, same in itertools.product(WISHES, (True, False), (True, False)):
    add("rabbitmq_user.present", {**FINE, "user_exists": exists, "check_password": same}, "ann", **wish)
WISH = {"password": "pw", "tags": ["x"], "perms": [{"/": ["a", "b", "c"]}]}
for failing in FINE:
    for exists in (True, False):
        add("rabbitmq_user.present", {**FINE, "user_exists": exists, "check_password": False, failing: FAILURE}, "ann", **WISH)
add("rabbitmq_user.present", {**FINE, "clear_password": FAILURE}, "ann", force=True)
for tags in ("", [], ["admin", "more"]):
    add("rabbitmq_user.present", {**FINE, "list_users": {"ann": tags}}, "ann", tags=["admin"])
for existing in ({}, {"/": {"configure": "", "write": "", "read": ""}}, {"/v": {"configure": "a", "write": "b", "read": "c"}}):
    for perms in ([{"/": ["", "", ""]}], [{"/v": ["a", "b", "c"]}], [{"/v": ["a", "b", "d"]}], [{"/": ALL}]):
        add("rabbitmq_user.present", {**FINE, "list_user_permissions": existing}, "ann", perms=perms)
for exists in (True, False, FAILURE):
    for done in ({"Deleted": "x"}, FAILURE):
        for more in ({}, {"runas": "rabbitmq"}):
            add("rabbitmq_user.absent", {"user_exists": exists, "delete_user": done}, "ann", **more)
