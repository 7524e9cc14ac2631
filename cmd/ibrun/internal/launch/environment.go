package launch

import (
	"slices"
	"strings"
)

// nodeEnvironment returns the environment of a node: that of the coordinator, this host's own for
// what belongs to a host, and what only this host has. scheduled means that a scheduler has set the
// variables of its job on this host. A variable whose name is empty cannot be set, and is left out.
func nodeEnvironment(coordinator, here []string, scheduled bool) (env []string) {
	given := map[string]bool{"": true}
	for _, v := range coordinator {
		if name, _, _ := strings.Cut(v, "="); name != "" && !belongsToHost(name, scheduled) && !describesTask(name) {
			env = append(env, v)
			given[name] = true
		}
	}
	for _, v := range here {
		if name, _, _ := strings.Cut(v, "="); !given[name] && !describesTask(name) {
			env = append(env, v)
		}
	}
	return env
}

// belongsToHost reports whether a variable describes a host, a login there or a process there, so
// that its value at the coordinator means nothing on another host. docs/clusters.md lists them.
func belongsToHost(name string, scheduled bool) bool {
	for _, prefix := range []string{"SSH_", "XDG_SESSION_", "DBUS_", "GPG_", "TMUX", "SYSTEMD_", "LISTEN_", "SLURM_CPU_BIND",
		"SLURM_MEM_BIND"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	if slices.Contains([]string{"HOSTNAME", "HOST", "HOSTTYPE", "MACHTYPE", "HOME", "USER", "LOGNAME", "MAIL", "SHELL", "SHLVL",
		"PWD", "OLDPWD", "_", "XDG_RUNTIME_DIR", "XDG_SEAT", "XDG_VTNR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID",
		"STY", "TTY", "KRB5CCNAME", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "K_MPI_JOB_ROLE", "SLURMD_NODENAME",
		"SLURM_NODEID", "SLURM_CPUS_ON_NODE"}, name) {
		return true
	}
	return scheduled && slices.Contains([]string{"TMPDIR", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
		"GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"}, name)
}

// describesTask reports whether a variable of Slurm describes the step or the task in which ibrun runs itself. The ranks are
// other tasks, and get none of them.
func describesTask(name string) bool {
	for _, prefix := range []string{"SLURM_STEP_", "SLURM_SRUN_", "SLURM_LAUNCH_", "SLURM_TOPOLOGY_", "SRUN_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEPID"}, name)
}
