// Package dashboards has no code: it holds dashboards for Grafana, rules for Prometheus, and the test that tries all of
// them on a job.
package dashboards
