package foreign

import (
	"fmt"
	"strconv"
	"strings"
)

// endFlags are about time, failures and the end of a job.
func endFlags() []Spelling {
	const failed = "ibrun ends the job when a rank fails; a program that is to survive that must be a job of its own"
	return []Spelling{
		{Of: OpenMPI, Names: []string{"timeout"}, Args: []string{"H:M:S"},
			fits:    func(s string) bool { return strings.Contains(s, ":") },
			To:      "--timeout=SECONDSs",
			convert: func(v []string) (meaning, error) { return timeLimit(v[0], clockSeconds) }},
		{Of: Hydra, Names: []string{"maxtime"}, Args: []string{"SECONDS"}, To: "--timeout=$1"},
		{Of: Slurm, Names: []string{"time"}, Args: []string{"MINUTES"}, To: "--timeout=$1m", convert: slurmTime,
			Note: "also `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM` and `D-HH:MM:SS`"},
		{Of: Slurm, Names: []string{"t"}, Args: []string{"MINUTES"}, To: "--timeout=$1m", convert: slurmTime,
			Means: "a limit of time"},
		{Of: Torchrun, Names: []string{"t"}, Args: []string{"STREAMS"}, convert: tee,
			Means:   "which streams are shown and written to files",
			Instead: teeInstead, fits: func(s string) bool { return !strings.Contains(s, "-") && strings.Count(s, ":") != 2 }},
		{Of: OpenMPI, Names: []string{"get-stack-traces", "report-state-on-timeout"},
			Instead: "write --deadlock-report TIME, or ask the running job: ibrun hang"},
		{Of: Slurm, Names: []string{"K", "kill-on-bad-exit"}, Args: []string{"1"}, optional: true,
			convert: func(v []string) (meaning, error) {
				if v[0] == "" || v[0] == "1" {
					return noEffect("ibrun ends the job when a rank fails")
				}
				return instead(failed)
			}, NoEffect: "ibrun ends the job when a rank fails", Note: "0 is an error"},
		{Of: Slurm, Names: []string{"no-kill", "k"}, Instead: failed},
		{Of: Slurm, Names: []string{"W", "wait"}, Args: []string{"SECONDS"},
			Instead: "ibrun waits for all ranks, and ends the job when one " +
				"fails: write --failure-grace TIME for the time until SIGKILL"},
		{Of: OpenMPI, Names: []string{"disable-recovery"}, NoEffect: "ibrun ends the job when a rank fails"},
		{Of: OpenMPI, Names: []string{"enable-recovery", "continuous"}, Instead: failed},
		{Of: OpenMPI | Torchrun, Names: []string{"max-restarts", "max_restarts"}, Args: []string{"N"}, convert: restarts,
			NoEffect: "ibrun does not restart ranks",
			Note:     "for 0; other values are errors"},
		{Of: Hydra, Names: []string{"disable-auto-cleanup"}, Instead: failed},
		{Of: Hydra, Names: []string{"print-all-exitcodes"},
			Instead: "ibrun names the rank that failed first and its code: leave it out"},
		{Of: OpenMPI, Names: []string{"report-child-jobs-separately"}, NoEffect: "ranks of ibrun start no further ranks"},
		{Of: OpenMPI, Names: []string{"forward-signals"}, Args: []string{"LIST"},
			Instead: "ibrun forwards the signals that ibrun help lists: leave it out"},
		{Of: Slurm, Names: []string{"X", "disable-status"}, NoEffect: "ibrun ends the job at the first SIGINT"},
		{Of: Slurm, Names: []string{"quit-on-interrupt"}, NoEffect: "ibrun ends the job at the first SIGINT"},
		{Of: OpenMPI, Names: []string{"do-not-launch"}, To: "--dry-run"},
		{Of: Slurm, Names: []string{"test-only"}, To: "--dry-run"},
	}
}

// restarts accepts only no restarts.
func restarts(v []string) (meaning, error) {
	if v[0] == "0" {
		return noEffect("ibrun does not restart ranks")
	}
	return instead("ibrun does not restart ranks: restart the job, as in: for i in 1 2 3; do ibrun ... && break; done")
}

// timeLimit returns --timeout for a time in another launcher's syntax.
func timeLimit(text string, seconds func(string) (int, error)) (meaning, error) {
	n, err := seconds(text)
	switch {
	case err != nil:
		return meaning{}, err
	case n == 0:
		return noEffect("there is no limit")
	}
	return to(fmt.Sprintf("--timeout=%ds", n))
}

// slurmTime is Slurm's --time.
func slurmTime(v []string) (meaning, error) {
	switch strings.ToUpper(v[0]) {
	case "UNLIMITED", "INFINITE", "-1":
		return noEffect("there is no limit")
	}
	return timeLimit(v[0], slurmSeconds)
}

// slurmSeconds parses MINUTES, MM:SS, HH:MM:SS, D-HH, D-HH:MM and D-HH:MM:SS.
func slurmSeconds(text string) (int, error) {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, rest = "0", text
	}
	fields := strings.Split(rest, ":")
	units := map[int][]int{1: {60}, 2: {60, 1}, 3: {3600, 60, 1}}[len(fields)]
	if hasDays {
		units = []int{3600, 60, 1}
	}
	sum, err := sumTimes(append([]string{days}, fields...), append([]int{24 * 3600}, units...))
	if err != nil {
		return 0, fmt.Errorf("want a time such as 90 (minutes), 1:30:00 or 2-12 (days and hours); --timeout also accepts "+
			"90m: %w", err)
	}
	return sum, nil
}

// clockSeconds parses S, M:S, H:M:S and D:H:M:S.
func clockSeconds(text string) (int, error) {
	fields := strings.Split(text, ":")
	units := []int{24 * 3600, 3600, 60, 1}
	if len(fields) > len(units) {
		return 0, fmt.Errorf("want a time such as 1:30:00, or 1h30m")
	}
	sum, err := sumTimes(fields, units[len(units)-len(fields):])
	if err != nil {
		return 0, fmt.Errorf("want a time such as 1:30:00, or 1h30m: %w", err)
	}
	return sum, nil
}

// maxTimeField bounds each number of a time, so that the sum is in range.
const maxTimeField = 1 << 20

func sumTimes(fields []string, units []int) (sum int, err error) {
	if len(fields) > len(units) {
		return 0, fmt.Errorf("there are too many numbers")
	}
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil || n > maxTimeField {
			return 0, fmt.Errorf("%q is not a number from 0 to %d", field, maxTimeField)
		}
		sum += int(n) * units[i]
	}
	return sum, nil
}
