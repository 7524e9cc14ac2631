package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	OK      Severity = "ok"
	Info    Severity = "info"    // a hint, or not known
	Warning Severity = "warning" // works, but slowly or not for long
	Error   Severity = "error"   // does not work
)

// Finding is what a check found. Its JSON is what ibrun doctor --json prints, and its field names stay.
type Finding struct {
	ID       string   `json:"id"` // of the check: group.subject. A check has a finding for each device it looked at
	Severity Severity `json:"severity"`
	Evidence string   `json:"evidence"` // what was seen, and where
	Why      string   `json:"why"`      // what comes of it; empty when all is well
	Fix      string   `json:"fix"`      // the command that mends it; empty when there is nothing to mend
}

// Report is all findings, in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
}

// ExitCode is 2 when there is an error, 1 when there is a warning, otherwise 0.
func (r Report) ExitCode() int {
	code := 0
	for _, f := range r.Findings {
		switch f.Severity {
		case Error:
			return 2
		case Warning:
			code = 1
		}
	}
	return code
}

// JSON writes the report for programs.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Text writes the report for people, and how many findings of each severity there are. What several checks say in the
// same words stands there once.
func (r Report) Text(w io.Writer) error {
	var b strings.Builder
	count := map[Severity]int{}
	same := map[Finding][]string{} // without its ID: the checks that say so
	for _, f := range r.Findings {
		count[f.Severity]++
		id := f.ID
		f.ID = ""
		same[f] = append(same[f], id)
	}
	for _, f := range r.Findings {
		id := f.ID
		f.ID = ""
		checks := same[f]
		if checks == nil {
			continue // it was written
		}
		delete(same, f)
		fmt.Fprintf(&b, "%-8s %-16s %s\n", f.Severity, id, indent(f.Evidence))
		for _, line := range []struct{ word, text string }{
			{"why: ", f.Why}, {"fix: ", f.Fix}, {"so also ", strings.Join(slices.Compact(checks)[1:], ", ")},
		} {
			if line.text != "" {
				fmt.Fprintf(&b, "%25s %s%s\n", "", line.word, indent(line.text))
			}
		}
	}
	fmt.Fprintf(&b, "%d errors, %d warnings, %d hints, %d ok\n", count[Error], count[Warning], count[Info], count[OK])
	_, err := io.WriteString(w, b.String())
	return err
}

// indent puts the lines after the first below it.
func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", 26)) }

// check is one check. It returns at least one finding; their ID is set by the caller.
type check struct {
	id  string
	run func(*Host) []Finding
}

// checks are all checks, in the order in which things have to work.
func checks() []check {
	return []check{
		{"memlock.limit", memlockLimit},
		{"verbs.device", verbsDevice},
		{"verbs.open", verbsOpen},
		{"verbs.cm", verbsCM},
		{"verbs.library", verbsLibrary},
		{"verbs.drivers", verbsDrivers},
		{"port.state", portState},
		{"port.subnet", portSubnet},
		{"port.pcie", portPCIe},
		{"gid.choice", gidChoice},
		{"gid.index", gidIndex},
		{"mtu.size", mtuSize},
		{"mtu.equal", mtuEqual},
		{"flow.pfc", flowPFC},
		{"flow.ecn", flowECN},
		{"flow.loss", flowLoss},
		{"reach.ports", reachPorts},
		{"reach.hosts", reachHosts},
		{"reach.clock", reachClock},
		{"host.numa", hostNUMA},
		{"host.iommu", hostIOMMU},
		{"host.acs", hostACS},
		{"host.hugepages", hostHugepages},
		{"host.thp", hostTHP},
		{"host.governor", hostGovernor},
		{"host.irqbalance", hostIRQBalance},
		{"process.fork", processFork},
		{"process.files", processFiles},
		{"process.shm", processShm},
		{"process.kernel", processKernel},
		{"process.netns", processNetns},
		{"ssh.login", sshLogin},
		{"ssh.version", sshVersion},
		{"ssh.name", sshName},
		{"ssh.port", sshPort},
	}
}

// Examine runs all checks.
func Examine(h *Host) Report {
	r := Report{Findings: []Finding{}}
	for _, c := range checks() {
		for _, f := range c.run(h) {
			f.ID = c.id
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Severity: OK, Evidence: fmt.Sprintf(format, args...)}}
}

// hint is a finding without a remedy: something that could not be seen, or does not matter here.
func hint(format string, args ...any) []Finding {
	return []Finding{{Severity: Info, Evidence: fmt.Sprintf(format, args...)}}
}

func finding(s Severity, evidence, why, fix string) []Finding {
	return []Finding{{Severity: s, Evidence: evidence, Why: why, Fix: fix}}
}
