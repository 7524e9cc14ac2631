package launch

import (
	"slices"
	"strings"
	"testing"
)

// A node has the environment of the coordinator, but its own values of what describes a host, a
// login or a process there.
func TestNodeEnvironment(t *testing.T) {
	coordinator := strings.Fields("PATH=/head =x LANG=C HOSTNAME=head SSH_CONNECTION=head HOME=/h XDG_RUNTIME_DIR=/run/0 " +
		"DISPLAY=:0 DBUS_SESSION_BUS_ADDRESS=x KRB5CCNAME=/a " +
		"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=1 CUDA_VISIBLE_DEVICES=0 TMPDIR=/a")
	here := strings.Fields("PATH=/here HOSTNAME=here HOME=/home/me SLURM_PROCID=1 SLURM_NTASKS=2 SLURMD_NODENAME=n2 " +
		"CUDA_VISIBLE_DEVICES=3 LICENSE=there KRB5CCNAME=/b")
	for _, c := range []struct {
		scheduled bool
		want      string
	}{
		{false, "CUDA_VISIBLE_DEVICES=0 HOME=/home/me HOSTNAME=here KRB5CCNAME=/b LANG=C LICENSE=there PATH=/head " +
			"SLURMD_NODENAME=n2 SLURM_JOB_ID=7 SLURM_NTASKS=4 TMPDIR=/a"},
		{true, "CUDA_VISIBLE_DEVICES=3 HOME=/home/me HOSTNAME=here KRB5CCNAME=/b LANG=C LICENSE=there PATH=/head " +
			"SLURMD_NODENAME=n2 SLURM_JOB_ID=7 SLURM_NTASKS=4"},
	} {
		got := nodeEnvironment(coordinator, here, c.scheduled)
		slices.Sort(got)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("scheduled %v:\n got %s\nwant %s", c.scheduled, text, c.want)
		}
	}
}
