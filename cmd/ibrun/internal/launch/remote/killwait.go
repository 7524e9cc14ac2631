package remote

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// killMargin is how much earlier than the scheduler ibrun kills the ranks of a job, so that it can still say what has happened.
const killMargin = 2 * time.Second

// SlurmGrace returns how long the ranks of a Slurm job may take to end after SIGTERM: a little less than Slurm's KillWait, after
// which it kills all processes of the job. It returns 0 if Slurm does not say it.
func SlurmGrace() time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "scontrol", "show", "config").Output()
	if err != nil {
		return 0
	}
	return graceOf(string(out))
}

// graceOf returns the grace that follows from the output of scontrol show config.
func graceOf(config string) time.Duration {
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) != "KillWait" {
			continue
		}
		words := strings.Fields(value) // 30 sec
		if len(words) == 0 {
			return 0
		}
		seconds, err := strconv.Atoi(words[0])
		if err != nil || seconds <= 0 || seconds > 1<<16 {
			return 0
		}
		wait := time.Duration(seconds) * time.Second
		return max(wait-killMargin, wait/2)
	}
	return 0
}
