//go:build linux && !static && (amd64 || arm64)

package ibvmock_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestProcesses runs ibv_rc_pingpong in two processes that share a network, polling and sleeping. It was compiled for the real
// library, and checks what it receives.
func TestProcesses(t *testing.T) {
	program := needtest.Program(t, "ibv_rc_pingpong", "ibverbs-utils")
	library := ibvmock.Build(t)
	for _, mode := range [][]string{{"-c"}, {"-c", "-e"}} {
		ctx := waittest.Context(t)
		dir := t.TempDir()
		port, err := freeport.TCP()
		if err != nil {
			t.Fatal(err)
		}
		start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
			t.Helper()
			args = slices.Concat([]string{"-d", "mlx5_0", "-n", "20", "-p", strconv.Itoa(port)}, mode, args)
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Env = append(os.Environ(), ibvmock.Environment(library, dir, "mlx5_0=mlx5_ib")...)
			out := new(bytes.Buffer)
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd, out
		}
		server, serverOut := start()
		for ctx.Err() == nil { // until the server listens
			client, out := start("127.0.0.1")
			if err := client.Wait(); err == nil {
				break
			} else if !bytes.Contains(out.Bytes(), []byte("Couldn't connect")) {
				t.Fatalf("client %v: %v\n%s", mode, err, out)
			}
		}
		if err := server.Wait(); err != nil {
			t.Errorf("server %v: %v\n%s", mode, err, serverOut)
		}
	}
}
