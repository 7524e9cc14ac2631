package openmpitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnv: two runs of mpirun share no folder. mpirun tells its ranks in which folder it keeps its session.
func TestEnv(t *testing.T) {
	var sessions []string
	for range 2 {
		stdout, stderr, code := Run(t, nil, "-n", "1", "printenv", "PMIX_SERVER_TMPDIR")
		below, err := filepath.Rel(os.TempDir(), strings.TrimSpace(stdout))
		if code != 0 || err != nil {
			t.Fatalf("%q, exit code %d, %v\n%s", stdout, code, err, stderr)
		}
		folder, _, _ := strings.Cut(below, "/")
		sessions = append(sessions, folder)
	}
	if sessions[0] == sessions[1] {
		t.Errorf("both runs use the folder %s", sessions[0])
	}
}
