"""The message broker RabbitMQ."""

from record_calls import Each, Raise, Said

CASES = []
AS = {"runas": "rabbitmq"}
PROGRAM = "/usr/sbin/rabbitmqctl"
READING, OLD = "3.10.8", "Error: could not recognise command"


def programs(module, _root):
    # Where they were found is asked each time.
    module.RABBITMQCTL = PROGRAM
    module.RABBITMQ_PLUGINS = module.salt.utils.path.which("rabbitmq-plugins")


def quiet(calls):
    """Ours keeps addresses with passwords out of the log."""
    return [{**call, "kwargs": {**call["kwargs"], "output_loglevel": "quiet"}} for call in calls]


def reading(prompted):
    """Ours asks for the version first, and gives the password to versions that read it on their standard input."""

    def rewrite(calls):
        ours = []
        for call in calls:
            words = call["args"][0]
            if words[1:2] not in (["add_user"], ["change_password"], ["authenticate_user"]):
                ours.append(call)
                continue
            plain = {key: value for key, value in call["kwargs"].items() if key != "output_loglevel"}
            version = {"stdout": READING if prompted else "", "stderr": "" if prompted else OLD, "retcode": 0 if prompted else 64, "pid": 1}
            ours.append({"fun": "cmd.run_all", "args": [[PROGRAM, "version"]],
                         "kwargs": {**plain, "output_loglevel": "quiet", "ignore_retcode": True}, "ret": version})
            if prompted:
                password = words[3] if words[3] == "secret" else "{any}"
                call = {**call, "args": [words[:3]], "kwargs": {**call["kwargs"], "stdin": password, "stdin_raw_newlines": True}}
            elif words[3] != "secret":
                call = {**call, "args": [[*words[:3], "{any}"]]}
            ours.append(call)
        return ours

    return rewrite


def add(fun, *args, **more):
    kwargs = more.pop("kwargs", {})
    CASES.append({"fun": "rabbitmq." + fun, "args": list(args), "kwargs": {**AS, **kwargs}, "patch": programs, **more})


FAILED = Said("", 1, "Error: unable to perform an operation on node 'rabbit@host'.")
WARNED = Said("done", 0, "warning: odd")
ENDED = Said("out", 2)
USERS = "user\ttags\nguest\t[administrator]\nann\t[a, b]\nbob\t[]\n"
OLD_USERS = "Listing users ...\nguest\t[administrator]\nann\t[monitoring,management]\nodd\n...done."
for text in (USERS, OLD_USERS, "", "WARNING: odd\nguest\t[a b]", "ann\tx\nbob\t"):
    says = [("list_users", Said(text))]
    add("list_users", says=says)
    for name in ("guest", "ann", "nobody"):
        add("user_exists", name, says=says)
for said in (FAILED, WARNED, ENDED):
    says = [("", said)]
    add("list_users", says=says)
    add("user_exists", "ann", says=says)
    add("list_vhosts", says=says)
    add("vhost_exists", "/", says=says)
    for fun in ("list_available_plugins", "list_enabled_plugins", "list_queues"):
        add(fun, says=says)
    add("list_queues_vhost", "/x", says=says)
    add("plugin_is_enabled", "x", says=says)
    add("list_policies", says=says, answers={"pkg.version": "3.10.8-1"})

for text in ("name\n/\n/a\n", "Listing vhosts ...\n/\nwith space\n...done.", ""):
    says = [("list_vhosts", Said(text))]
    add("list_vhosts", says=says)
    for name in ("/", "/a", "with space", "space"):
        add("vhost_exists", name, says=says)

UPSTREAMS = 'component\tname\tvalue\nfederation-upstream\tone\t{"uri":"amqp://ann:pw@h"}\nshovel\ttwo\t{"a":1}\n'
for said in (Said(UPSTREAMS), Said(""), Said("Listing\nodd"), Said("a\tb"), FAILED):
    says = [("list_parameters", said)]
    add("list_upstreams", says=says, rewrite=quiet)
    for name in ("one", "name", "none"):
        add("upstream_exists", name, says=says, rewrite=quiet)

for said in (Said("Done."), FAILED, WARNED, ENDED, Said()):
    says = [("", said)]
    for prompted in (True, False):
        add("add_user", "ann", "secret", says=says, rewrite=reading(prompted))
        add("change_password", "ann", "secret", says=says, rewrite=reading(prompted))
    add("add_user", "ann", "", says=says)
    for fun in ("delete_user", "clear_password", "add_vhost", "delete_vhost", "enable_plugin", "disable_plugin", "delete_upstream"):
        add(fun, "name", says=says)
    add("set_permissions", "/v", "ann", says=says)
    add("set_permissions", "/v", "ann", "c", "w", "r", says=says)
    for tags in ("administrator", ["a", "b"], [], 5):
        add("set_user_tags", "ann", tags, says=says)
    for fun in ("status", "cluster_status", "stop_app", "start_app", "reset", "force_reset"):
        add(fun, says=says)
    add("delete_policy", "/", "HA", says=says)
    for more in ({}, {"priority": 0}, {"priority": 5}, {"apply_to": "queues"}, {"priority": "1", "apply_to": "all"}):
        add("set_policy", "/", "HA", ".*", '{"ha-mode":"all"}', says=says, kwargs=more)
    add("set_policy", "/", "HA", ".*", {"ha-mode": "all", "ha-params": [1, 2.5, None, True, "é"]}, says=says)
    add("set_policy", "/", "HA", ".*", ["x"], says=says)
    add("set_policy", "/", "HA", ".*", None, says=says)
    add("set_upstream", "up", "amqp://h", says=says, rewrite=quiet)
    add("set_upstream", "up", ["amqp://h", "amqp://i"], says=says, rewrite=quiet, kwargs={
        "prefetch_count": 10, "reconnect_delay": 0, "ack_mode": "on-confirm", "trust_user_id": False, "exchange": "", "max_hops": 1,
        "expires": None, "message_ttl": 1000, "ha_policy": "all", "queue": "q"})
for passing in (Said("Done."), FAILED):
    for cleared in (Said("ok"), FAILED):
        for gone in (Said("ok"), WARNED):
            says = [("add_user", passing), ("clear_password", cleared), ("delete_user", gone)]
            for prompted in (True, False):
                add("add_user", "ann", says=says, rewrite=reading(prompted))

STATUSES = (
    "Status of node rabbit@host ...\nRuntime\n\nRabbitMQ version: 3.10.8\nNode name: rabbit@host\n",
    '[{pid,1},\n {running_applications,[{rabbit,"RabbitMQ","3.6.10"},\n  {mnesia,"MNESIA","4.14.3"}]}]',
    '[{running_applications,[{rabbit,"RabbitMQ","3.5.6"}]}]', '[{running_applications,[{rabbit,"RabbitMQ","3.6"}]}]',
    "RabbitMQ version: 3.9.0-rc1", "RabbitMQ version: odd", "",
)
for status in STATUSES:
    for said in (Said("Success"), Said("", 65, "Error: failed to authenticate user \"ann\""), Said("{refused,<<\"ann\">>,\"user ~p - invalid credentials\"}")):
        says = [("status", Said(status)), ("", said)]
        for prompted in (True, False):
            add("check_password", "ann", "secret", says=says, rewrite=reading(prompted))
add("check_password", 'a"b', 'c"d', says=[("status", Said("")), ("", Said("ok"))])

PERMISSIONS = '[\n{"user":"guest","vhost":"/","configure":".*","write":".*","read":".*"}\n,{"user":"ann","vhost":"/a","configure":"","write":"","read":""}\n]'
for said in (Said(PERMISSIONS), Said("[]"), Said(""), Said("odd"), FAILED, Said('[{"read":".*"}]')):
    add("list_permissions", "/", says=[("", said)])
    add("list_user_permissions", "ann", says=[("", said)])

for ram in (None, True, False):
    for joined in (Said("Clustering node"), FAILED):
        add("join_cluster", "host", says=[("join_cluster", joined)], kwargs={"ram_node": ram})
        add("join_cluster", "host", "other", ram, says=[("join_cluster", joined)])
add("join_cluster", "host", says=[("stop_app", FAILED)])
add("join_cluster", "host", says=[("start_app", FAILED)])

QUEUES = "name\tmessages\nq1\t5\nq2\t0\n"
for text in (QUEUES, "Timeout: 60.0 seconds ...\nListing queues for vhost / ...\nq1\t5\tx", ""):
    says = [("list_queues", Said(text))]
    CASES.append({"fun": "rabbitmq.list_queues", "args": ["rabbitmq", "messages", "consumers"], "patch": programs, "says": says})
    CASES.append({"fun": "rabbitmq.list_queues_vhost", "args": ["/v", "rabbitmq", "messages"], "patch": programs, "says": says})
    add("list_queues", says=says)
    add("list_queues_vhost", "/v", says=says)

NEW = 'vhost\tname\tpattern\tapply-to\tdefinition\tpriority\n/\tHA\t.*\tall\t{"ha-mode":"all"}\t0\n/\tother\t^x\tqueues\t{}\t5\n'
MIDDLE = 'Listing policies ...\n/\tHA\tall\t.*\t{"ha-mode":"all"}\t0\n...done.'
EARLY = '/\tHA\t.*\t{"ha-mode":"all"}\t0\nodd\n'
for text in (NEW, MIDDLE, EARLY, "", "a\tb\tc"):
    for version in ("3.10.8-1.1", "3.7.0", "3.6.10-1", "3.3.5", ""):
        more = {"says": [("list_policies", Said(text))], "answers": {"pkg.version": version}}
        add("list_policies", **more)
        add("list_policies", "/", grains={"os_family": "FreeBSD"}, **more)
        add("policy_exists", "/", "HA", **more)
        add("policy_exists", "/", "none", **more)


def other_host(calls):
    """Ours asks for the policies of the virtual host that is meant."""
    return [{**call, "args": [["/v" if word == "/" else word for word in call["args"][0]]]} if call["fun"] == "cmd.run_all" else call
            for call in calls]


add("policy_exists", "/v", "HA", says=[("", Said("/v\tHA\t.*\tall\t{}\t0"))], answers={"pkg.version": "3.10.8-1"}, rewrite=other_host)
add("list_policies", "/v", says=[("", Said("/v\tHA\t.*\tall\t{}\t0"))], answers={"pkg.version": "3.10.8-1"})

for text in ("rabbitmq_a\nrabbitmq_b\n", 'Listing plugins with pattern ".*" ...\nrabbitmq_a', ""):
    for missing in ([], ["rabbitmq-plugins"]):
        more = {"says": [("", Said(text))], "missing": missing, "answers": {"pkg.version": "3.6.10-1"}}
        add("list_available_plugins", **more)
        add("list_enabled_plugins", **more)
        add("plugin_is_enabled", "rabbitmq_a", **more)
        add("plugin_is_enabled", "rabbitmq", **more)
        add("enable_plugin", "rabbitmq_a", **more)
