package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// Verdict is what all findings together mean.
type Verdict struct {
	// Jobs says whether jobs work here: [JobsWork], [JobsFail] or [JobsUnknown].
	Jobs string `json:"jobs"`
	// RDMA lists the ports that ibrun can use, or says what is missing.
	RDMA string `json:"rdma"`
	// Summary is both in one line.
	Summary string `json:"summary"`
}

// The values of [Verdict.Jobs].
const (
	JobsWork    = "work"
	JobsFail    = "fail"
	JobsUnknown = "unknown" // the machine was captured
)

// newVerdict returns the verdict on a machine with these findings. Jobs work in spite of a fault of RDMA: they use TCP. They work
// in spite of a fault of TCP if all ranks are on this machine and use shared memory.
func newVerdict(h *Host, findings []Finding) Verdict {
	v := Verdict{Jobs: JobsWork, RDMA: h.rdmaVerdict(findings)}
	var obstacles []string
	for _, f := range findings {
		group, _, _ := strings.Cut(f.ID, ".")
		local := f.ID == "settings.valid" || f.ID == "settings.netdev" && (len(h.Peers) > 0 || !h.sharesMemory())
		if f.Severity == Error && (local || group == "ssh" || f.ID == "reach.hosts") && !slices.Contains(obstacles, f.ID) {
			obstacles = append(obstacles, f.ID)
		}
	}
	where := "jobs on this machine"
	if len(h.Peers) > 0 {
		where += " and the hosts"
	}
	switch {
	case !h.Live:
		v.Jobs = JobsUnknown
		v.Summary = "whether jobs work on a captured machine is unknown"
	case len(obstacles) > 0:
		v.Jobs = JobsFail
		v.Summary = fmt.Sprintf("%s do not work: %s", where, strings.Join(obstacles, ", "))
	default:
		v.Summary = where + " work"
	}
	v.Summary += "; RDMA: " + v.RDMA
	return v
}

// rdmaVerdict names the ports that ibrun can use.
func (h *Host) rdmaVerdict(findings []Finding) string {
	var ports []string
	h.forEachUsable(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		if name := portName(d, p); !h.Live || h.jobsUse(name) {
			ports = append(ports, name)
		}
		return nil
	})
	var wrong []string
	for _, f := range findings {
		group, _, _ := strings.Cut(f.ID, ".")
		about := slices.Contains([]string{"memlock", "verbs", "port", "gid", "mtu"}, group) || f.ID == "reach.ports"
		if f.Severity == Error && about && !slices.Contains(wrong, f.ID) {
			wrong = append(wrong, f.ID)
		}
	}
	switch {
	case len(h.Top.RDMA) == 0:
		return "no device"
	case len(ports) == 0 && len(wrong) > 0:
		return "no port that ibrun can use (" + strings.Join(wrong, ", ") + ")"
	case len(ports) == 0:
		return "no port that ibrun can use"
	case len(wrong) > 0:
		return strings.Join(ports, ", ") + ", with errors (" + strings.Join(wrong, ", ") + ")"
	}
	return strings.Join(ports, ", ")
}

// helps reports whether a finding asks for something to be done.
func (f Finding) helps() bool {
	return f.Severity == Error || f.Severity == Warning || f.Severity == Info && f.Fix != ""
}
