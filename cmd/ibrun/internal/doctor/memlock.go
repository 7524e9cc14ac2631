package doctor

import (
	"fmt"
	"strconv"
)

// capIPCLock is the number of CAP_IPC_LOCK in linux/capability.h.
const capIPCLock = 14

// lowMemlock is a limit that suffices only for small tests. sufficientMemlock also suffices for the buffers of many peers.
const (
	lowMemlock        = 64 << 20
	sufficientMemlock = 1 << 30
)

// memlockLimit checks the limit on locked memory: registered memory of RDMA devices is locked.
func memlockLimit(h *Host) []Finding {
	soft, hard, err := h.readLimit("Max locked memory")
	if err != nil {
		return unknownFinding("the limit on locked memory", err)
	}
	held, capErr := h.capability(capIPCLock)
	switch {
	case held:
		return okFinding("the %s limit on locked memory does not apply (the process has CAP_IPC_LOCK)", size(soft))
	case soft == unlimited:
		return okFinding("locked memory is unlimited")
	}
	evidence := fmt.Sprintf("the limit on locked memory (ulimit -l) is %s, the hard limit %s", size(soft),
		size(hard))
	if capErr != nil {
		evidence += fmt.Sprintf("; whether it has CAP_IPC_LOCK is unknown: %v", capErr)
	}
	severity, why := Warning, "devices can use only locked memory: registering more memory fails with ENOMEM, and "+
		"programs fall back to TCP"
	switch {
	case len(h.Top.RDMA) == 0:
		return infoFinding("%s; this machine has no RDMA device", evidence)
	case soft < lowMemlock:
		severity = Error
	case soft >= sufficientMemlock:
		return okFinding("%s", evidence)
	}
	return newFinding(severity, evidence, why, h.memlockFix(hard))
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

// capability reports whether the process has an effective capability.
func (h *Host) capability(number int) (bool, error) {
	word, err := h.readField("proc/self/status", "CapEff")
	if err != nil {
		return false, err
	}
	mask, err := strconv.ParseUint(word, 16, 64)
	if err != nil {
		return false, fmt.Errorf("CapEff in proc/self/status: %w", err)
	}
	return mask>>number&1 != 0, nil
}
