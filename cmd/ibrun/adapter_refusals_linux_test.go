//go:build linux && !static && (amd64 || arm64)

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/doctor"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// TestAdapterRefusals: an adapter refuses a call, on one node or on both. The job uses TCP, and each node whose adapter refuses
// says why in one line that names the call and the error. Doctor and explain say the same. With IBRUN_SOAK=1 it goes through the
// calls that a job makes when it starts, else it takes one.
func TestAdapterRefusals(t *testing.T) {
	t.Parallel()
	errnos := []syscall.Errno{syscall.ETIMEDOUT, syscall.EINTR, syscall.EIO, syscall.EBUSY, syscall.ENODATA, syscall.ENETUNREACH,
		syscall.EHOSTUNREACH, syscall.EREMOTEIO, syscall.EINVAL}
	calls := []string{"ibv_modify_qp", "ibv_req_notify_cq", "ibv_open_device", "ibv_query_device", "ibv_query_port",
		"ibv_query_pkey", "ibv_alloc_pd", "ibv_reg_mr",
		"ibv_create_ah", "ibv_create_comp_channel", "ibv_create_cq", "ibv_create_qp", "ibv_destroy_qp",
		"ibv_destroy_ah", "ibv_post_send", "ibv_post_recv"}
	for i, call := range soaktest.Sample(calls, 1) {
		for k, errno := range errnos {
			if k != i%len(errnos) && (!soaktest.On() || i > 1) {
				continue // all errors of the first two calls, and one of each other
			}
			t.Run(call+" "+errno.Error(), func(t *testing.T) {
				refuseOverMock(t, call, errno, k%2 == 0)
			})
		}
	}
}

// refuseOverMock runs doctor, explain and a job on two nodes whose adapters refuse a call, on both or on the second.
func refuseOverMock(t *testing.T, call string, errno syscall.Errno, both bool) {
	a := newAdapters(t, "dev0=mlx5_ib", "dev0=mlx5_ib")
	refusing := a.hosts[1:]
	if both {
		refusing = a.hosts
	}
	for _, host := range refusing {
		host.Refuse(call, errno)
		checkUnusable(t, host, call, errno)
	}
	a.start("")
	a.wantTransport("tcp")
	for k, p := range a.list {
		text, want := p.stderrText(), 0
		if both || k == 1 {
			want = 1
		}
		if lines := strings.Count(text, "TCP is used instead of RDMA"); lines != want ||
			want > 0 && (!strings.Contains(text, call) || !strings.Contains(text, errno.Error())) {
			t.Errorf("node %d printed %d lines, want %d with %s and %v:\n%s", k, lines, want, call, errno, text)
		}
	}
}

// checkUnusable checks that doctor and explain say that a job cannot use device dev0, and why.
func checkUnusable(t *testing.T, host *ibvmock.Node, call string, errno syscall.Errno) {
	t.Helper()
	out, err := host.Command("ibrun", "explain", "--transport", "rdma", "8").CombinedOutput()
	if !strings.Contains(string(out), call) || !strings.Contains(string(out), errno.Error()) {
		t.Errorf("ibrun explain: %v, want %s and %v in\n%s", err, call, errno, out)
	}
	out, err = host.Command("ibrun", "doctor", "--json").Output()
	var r doctor.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := false
	for _, f := range r.Findings {
		found = found || f.Severity == doctor.Error && strings.Contains(f.Evidence, "dev0") &&
			strings.Contains(f.Evidence, call) && strings.Contains(f.Evidence, errno.Error())
	}
	if !found || strings.Contains(r.Verdict.RDMA, "dev0/1,") {
		t.Errorf("ibrun doctor: %v, want an error with %s and %v in\n%s", err, call, errno, out)
	}
}
