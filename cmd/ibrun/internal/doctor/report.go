package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/internal/printable"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	OK      Severity = "ok"
	Info    Severity = "info"    // a hint, or unknown
	Warning Severity = "warning" // works, but slowly or not for long
	Error   Severity = "error"   // does not work
)

// Finding is a result of a check. Its JSON is printed by ibrun doctor --json, so its field names must not change.
type Finding struct {
	ID       string   `json:"id"` // of the check: group.subject. A check may return a finding for each device
	Severity Severity `json:"severity"`
	Evidence string   `json:"evidence"` // the observation
	Why      string   `json:"why"`      // the consequence; empty if there is no problem
	Fix      string   `json:"fix"`      // the command that fixes it; empty if there is nothing to fix
}

// Report contains all findings, in the order of the checks, and what they mean together.
type Report struct {
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`
}

// ExitCode returns 1 if jobs cannot work, otherwise 0.
func (r Report) ExitCode() int {
	if r.Verdict.Jobs == JobsFail {
		return 1
	}
	return 0
}

// JSON writes the report as JSON.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(printable.NewJSONWriter(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Text writes the report as text: the verdict, the findings, and how many there are of each severity. It leaves out findings that
// ask for nothing, unless all are wanted. It writes equal findings of several checks once.
func (r Report) Text(w io.Writer, all bool) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.Verdict.Summary)
	count := map[Severity]int{}
	same := map[Finding][]string{} // a finding without ID: the checks with this finding
	for _, f := range r.Findings {
		if !f.helps() && !all {
			count[OK]++
			continue
		}
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
			continue // already written
		}
		delete(same, f)
		fmt.Fprintf(&b, "%-8s %-16s %s\n", f.Severity, id, indent(f.Evidence))
		for _, line := range []struct{ word, text string }{
			{"why: ", f.Why}, {"fix: ", f.Fix}, {"same result: ", strings.Join(slices.Compact(checks)[1:], ", ")},
		} {
			if line.text != "" {
				fmt.Fprintf(&b, "%25s %s%s\n", "", line.word, indent(line.text))
			}
		}
	}
	rest := fmt.Sprintf("%d ok", count[OK])
	if !all {
		rest = fmt.Sprintf("%d other results ask for nothing (--all prints them)", count[OK])
	}
	fmt.Fprintf(&b, "%d errors, %d warnings, %d hints; %s\n", count[Error], count[Warning], count[Info], rest)
	_, err := io.WriteString(w, b.String())
	return err
}

// indent aligns the lines after the first with it.
func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", 26)) }

// check is one check. It returns at least one finding; their ID is set by the caller.
type check struct {
	id  string
	run func(*Host) []Finding
}

// checks returns all checks. A check comes after those of the parts that it depends on.
func checks() []check {
	return []check{
		{"memlock.limit", memlockLimit},
		{"settings.valid", settingsValid},
		{"settings.timeout", settingsTimeout},
		{"settings.gid", settingsGID},
		{"settings.netdev", settingsInterfaces},
		{"verbs.device", verbsDevice},
		{"verbs.open", verbsOpen},
		{"verbs.cm", verbsCM},
		{"verbs.library", verbsLibrary},
		{"verbs.drivers", verbsDrivers},
		{"verbs.use", verbsUse},
		{"port.state", portState},
		{"port.subnet", portSubnet},
		{"port.partition", portPartition},
		{"port.fabric", portFabric},
		{"port.pcie", portPCIe},
		{"gid.choice", gidChoice},
		{"gid.index", gidIndex},
		{"mtu.size", mtuSize},
		{"mtu.active", mtuActive},
		{"mtu.equal", mtuEqual},
		{"mtu.setting", mtuSetting},
		{"mtu.hosts", mtuHosts},
		{"flow.pfc", flowPFC},
		{"flow.ecn", flowECN},
		{"flow.loss", flowLoss},
		{"reach.ports", reachPorts},
		{"reach.hosts", reachHosts},
		{"reach.fabric", reachFabric},
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

// RunChecks runs all checks.
func RunChecks(h *Host) Report {
	r := Report{Findings: []Finding{}}
	for _, c := range checks() {
		for _, f := range c.run(h) {
			f.ID = c.id
			r.Findings = append(r.Findings, f)
		}
	}
	r.Verdict = newVerdict(h, r.Findings)
	return r
}

// okFinding returns a finding without a problem.
func okFinding(format string, args ...any) []Finding {
	return []Finding{{Severity: OK, Evidence: fmt.Sprintf(format, args...)}}
}

// infoFinding returns a finding without a remedy: about something that is unknown, or does not apply to this host.
func infoFinding(format string, args ...any) []Finding {
	return []Finding{{Severity: Info, Evidence: fmt.Sprintf(format, args...)}}
}

// newFinding returns a finding with a consequence and a fix.
func newFinding(s Severity, evidence, why, fix string) []Finding {
	return []Finding{{Severity: s, Evidence: evidence, Why: why, Fix: fix}}
}
