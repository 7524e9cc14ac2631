package doctor

import (
	"fmt"
	"strconv"
)

// capIPCLock is the number of CAP_IPC_LOCK in linux/capability.h.
const capIPCLock = 14

// fewLocked is a limit with which nothing but a first test works, someLocked one with which buffers of many peers fail.
const (
	fewLocked  = 64 << 20
	someLocked = 1 << 30
)

// memlockLimit looks at how much memory may be registered: RDMA devices need it locked.
func memlockLimit(h *Host) []Finding {
	soft, hard, err := h.limit("Max locked memory")
	if err != nil {
		return unknown("the limit on locked memory", err)
	}
	held, capErr := h.capability(capIPCLock)
	switch {
	case held:
		return ok("the process has CAP_IPC_LOCK: its limit on locked memory, %s, does not hold", size(soft))
	case soft == unlimited:
		return ok("locked memory is unlimited")
	}
	evidence := fmt.Sprintf("at most %s of memory may be locked (ulimit -l), %s if the process asks for it", size(soft),
		size(hard))
	if capErr != nil {
		evidence += fmt.Sprintf("; whether it has CAP_IPC_LOCK is unknown: %v", capErr)
	}
	severity, why := Warning, "devices can only use locked memory: registering more fails with ENOMEM, and programs fall "+
		"back to TCP"
	switch {
	case len(h.Top.RDMA) == 0:
		return finding(Info, evidence, why+"; this machine has no RDMA device", h.memlockFix(hard))
	case soft < fewLocked:
		severity = Error
	case soft >= someLocked:
		return ok("%s", evidence)
	}
	return finding(severity, evidence, why, h.memlockFix(hard))
}

func (h *Host) memlockFix(hard uint64) string {
	switch where := h.container(); {
	case where == "kubernetes" || where == "kubepods":
		return `securityContext: {capabilities: {add: ["IPC_LOCK"]}} in the pod`
	case where != "":
		return "docker run --ulimit memlock=-1 --cap-add IPC_LOCK ..."
	case hard == unlimited:
		return "ulimit -l unlimited"
	case h.Getenv("SLURM_JOB_ID") != "":
		return "on every node: systemctl edit slurmd: [Service] LimitMEMLOCK=infinity; in slurm.conf " +
			"PropagateResourceLimitsExcept=MEMLOCK"
	}
	return `echo "* - memlock unlimited" > /etc/security/limits.d/rdma.conf   # and log in again`
}

// capability tells whether the process has a capability in effect.
func (h *Host) capability(number int) (bool, error) {
	word, err := h.field("proc/self/status", "CapEff")
	if err != nil {
		return false, err
	}
	mask, err := strconv.ParseUint(word, 16, 64)
	if err != nil {
		return false, fmt.Errorf("CapEff in proc/self/status: %w", err)
	}
	return mask>>number&1 != 0, nil
}
