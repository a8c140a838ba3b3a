"""Compiles a state tree as salt-ssh does and packs it with the files it needs, with Salt's own code.

usage: state_package.py MASTER_CONFIG MINION_CONFIG OUT ENVIRONMENT=SLS[,SLS]…

The environments' files are those of the master's configuration, pillar and roster grains those in PILLAR and GRAINS of
the environment, as JSON. Prints {"sum": …}: the sha256 of the package, which is written to OUT.
"""

import hashlib
import json
import os
import pathlib
import shutil
import sys

import salt.client.ssh.state
import salt.config
import salt.fileclient
import salt.state


def compiled(opts, names):
    """The low chunks of a tree; what cannot be compiled ends the script."""
    with salt.state.HighState(opts) as compiler:
        compiler.push_active()
        high, errors = compiler.render_highstate(names)
        high, more = compiler.state.reconcile_extend(high)
        errors += more + compiler.state.verify_high(high)
        high, more = compiler.state.requisite_in(high)
        chunks, late = compiler.state.compile_high_data(high)
        if errors + more + late:
            sys.exit(str(errors + more + late))
        return chunks


def main():
    master, minion, out, *names = sys.argv[1:]
    pillar, grains = json.loads(os.environ["PILLAR"]), json.loads(os.environ["GRAINS"])
    names = {env: listed.split(",") for env, listed in (name.split("=") for name in names)}
    served = salt.config.client_config(master)
    opts = salt.config.minion_config(minion)
    opts.update(file_client="local", file_roots=served["file_roots"], pillar_roots={"base": []}, grains=grains, pillar=pillar)
    chunks = compiled(opts, names)
    files = salt.client.ssh.state.lowstate_file_refs(chunks)
    with salt.fileclient.FSClient(served) as client:
        made = salt.client.ssh.state.prep_trans_tar(client, chunks, files, pillar, opts["id"], grains)
    shutil.move(made, out)
    print(json.dumps({"sum": hashlib.sha256(pathlib.Path(out).read_bytes()).hexdigest()}))


main()
