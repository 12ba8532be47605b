package monitoring

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func TestAlertsAreValidAndDocumented(t *testing.T) {
	t.Parallel()
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := yaml.Marshal(rules.Spec)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := rulefmt.Parse(groups, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.Default())
	for _, err := range errs {
		t.Error(err)
	}
	document, err := os.ReadFile(filepath.Join(root, "docs/operate/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			if !strings.Contains(string(document), "`"+rule.Alert+"`") {
				t.Errorf("docs/operate/metrics.md does not mention %s", rule.Alert)
			}
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s needs the label severity and the annotations summary and description", rule.Alert)
			}
		}
	}
}

// situation has the test cases of an alert. Each case is an entry of bad or good. The entry has one series per line,
// with a value for each minute. The alert must fire in each bad case, and must not fire in any good case.
type situation struct {
	bad, good []string
	// minute is the minute at which the test evaluates the alert. 0 means minute 100.
	minute int
}

var situations = map[string]situation{
	"TensorStackControllerDown": {
		bad: []string{
			`up{namespace="t9k-pytorch", job="pytorch-controller-metrics"} 0x100`,
			`up{namespace="t9k-pytorch", job="pytorch-controller-metrics"} 1x50`, // the pod is gone
			`up{namespace="team-a", job="pytorch-controller-metrics"} 0x100` + "\n" + // only another tenant's controller runs
				`up{namespace="team-b", job="pytorch-controller-metrics"} 1x100`,
		},
		good: []string{
			`up{namespace="t9k-pytorch", job="pytorch-controller-metrics", pod="a"} 0x100` + "\n" +
				`up{namespace="t9k-pytorch", job="pytorch-controller-metrics", pod="b"} 1x100`,
			`up{namespace="t9k-pytorch", job="pytorch-controller-metrics", pod="a"} 1x50` + "\n" + // a rollout replaces the pod
				`up{namespace="t9k-pytorch", job="pytorch-controller-metrics", pod="b"} _x50 1x50`,
			`up{namespace="else", job="another-controller-metrics"} 0x100`,
		},
	},
	"TensorStackControllerHasNoLeader": {
		bad: []string{`leader_election_master_status{job="pytorch-controller-metrics", pod="a"} 0x100`},
		good: []string{`leader_election_master_status{job="pytorch-controller-metrics", pod="a"} 0x100` + "\n" +
			`leader_election_master_status{job="pytorch-controller-metrics", pod="b"} 1x100`},
	},
	"TensorStackReconcileErrors": {
		bad: []string{
			`controller_runtime_reconcile_errors_total{job="pytorch-controller-metrics", controller="pytorchtrainingjob"} 0+30x100`,
		},
		good: []string{
			`controller_runtime_reconcile_errors_total{job="pytorch-controller-metrics", controller="pytorchtrainingjob"} 0+1x100`,
		},
	},
	"TensorStackControllerBehind": {
		bad: []string{
			`workqueue_depth{job="pytorch-controller-metrics", controller="pytorchtrainingjob", priority="0"} 60x100` + "\n" +
				`workqueue_depth{job="pytorch-controller-metrics", controller="pytorchtrainingjob", priority="-100"} 60x100`,
		},
		good: []string{
			`workqueue_depth{job="pytorch-controller-metrics", controller="pytorchtrainingjob", priority="0"} 5x100` + "\n" +
				`workqueue_depth{job="pytorch-controller-metrics", controller="progress", priority="0"} 200x100`, // not counted
		},
	},
	"TensorStackJobsNotStarting": {
		bad: []string{`tensorstack_jobs{kind="PyTorchTrainingJob", phase="Pending"} 4x100` + "\n" +
			`tensorstack_job_start_duration_seconds_count{kind="PyTorchTrainingJob"} 7x100`},
		good: []string{
			`tensorstack_jobs{kind="PyTorchTrainingJob", phase="Pending"} 4x100` + "\n" + // jobs wait, but others start
				`tensorstack_job_start_duration_seconds_count{kind="PyTorchTrainingJob"} 7+1x100`,
			`tensorstack_jobs{kind="PyTorchTrainingJob", phase="Pending"} 4x100` + "\n" + // jobs wait, but others run
				`tensorstack_jobs{kind="PyTorchTrainingJob", phase="Running"} 9x100`, // these jobs can use all resources
		},
	},
	"TensorStackNodesLoseJobs": {
		bad: []string{
			`tensorstack_job_restarts_total{kind="PyTorchTrainingJob", cause="NodeLost", counted="false"} 0+1x100`,
		},
		good: []string{`tensorstack_job_restarts_total{kind="PyTorchTrainingJob", cause="Error", counted="true"} 0+1x100`},
	},
	"TensorStackNodeCausesRestarts": {
		// The alert counts the restarts of the last day, which has 1440 minutes. If a case has several series, all their
		// samples are within 12 hours. The reason is that the test loads the series in any order, and Prometheus rejects a
		// sample that is much older than the samples that Prometheus already has.
		minute: 3000,
		bad: []string{
			restartsByNode("a", "NodeLost", "_x2900 1x40 2x20 3x50"), // the first value, 1, must also count
			restartsByNode("a", "NodeLost", "1x2000 4x1000"),
			restartsByNode("a", "NodeLost", "5x2000 1x300 2x300 3x400"), // the controller has restarted in its pod
			restartsByNode("a", "NodeLost", "_x2400 1x600") + "\n" + // the restarts of both causes count
				restartsByNode("a", "DeviceUnhealthy", "_x2500 1x250 2x250"),
			restartsByNode("old", "NodeLost", "_x2400 2x300") + "\n" + // the controller has a new pod
				restartsByNode("new", "NodeLost", "_x2650 1x350"),
		},
		good: []string{
			restartsByNode("a", "NodeLost", "_x2000 1x500 2x500"),
			restartsByNode("a", "NodeLost", "9x3000"), // all restarts were before the last day
			restartsByNode("a", "NodeLost", "7x2000 9x1000"),
			restartsByNode("a", "NodeLost", "_x100 1x500 5x500"), // the controller is gone for a day
			restartsByNode("a", "NodeLost", "_x2400 2x600") + "\n" + // each node causes too few restarts
				strings.ReplaceAll(restartsByNode("a", "NodeLost", "_x2500 2x500"), "node-1", "node-2"),
		},
	},
	"TensorStackJobsStall": {
		bad: []string{`tensorstack_job_stalls_total{kind="PyTorchTrainingJob", policy="Notify"} 0+0.05x100` + "\n" +
			`tensorstack_job_stalls_total{kind="PyTorchTrainingJob", policy="Restart"} 0+0.05x100`},
		good: []string{
			`tensorstack_job_stalls_total{kind="PyTorchTrainingJob", policy="Notify"} 0+0.05x100`,
			`tensorstack_job_stalls_total{kind="PyTorchTrainingJob", policy="Restart"} 40x100`,
		},
	},
	"TensorStackRecoveryTakesLong": {
		bad: []string{`tensorstack_job_recovery_duration_seconds_bucket{kind="PyTorchTrainingJob", le="600"} 0x100` + "\n" +
			`tensorstack_job_recovery_duration_seconds_bucket{kind="PyTorchTrainingJob", le="1800"} 0+1x100` + "\n" +
			`tensorstack_job_recovery_duration_seconds_bucket{kind="PyTorchTrainingJob", le="+Inf"} 0+1x100`},
		good: []string{`tensorstack_job_recovery_duration_seconds_bucket{kind="PyTorchTrainingJob", le="60"} 0+1x100` + "\n" +
			`tensorstack_job_recovery_duration_seconds_bucket{kind="PyTorchTrainingJob", le="+Inf"} 0+1x100`},
	},
	"TensorStackQueueStuck": {
		bad: []string{
			`tensorstack_pod_groups{queue="lab", state="Queued"} 2x100` + "\n" +
				`tensorstack_queue_quota{queue="lab", resource="cpu"} 8x100`,
		},
		good: []string{
			`tensorstack_pod_groups{queue="lab", state="Queued"} 2x100` + "\n" + // the queue is full
				`tensorstack_queue_allocated{queue="lab", resource="cpu"} 8x100`,
			`tensorstack_pod_groups{queue="", state="Queued"} 2x100`, // the groups name a queue that does not select them
		},
	},
}

// restartsByNode returns the series in which a pod of a controller counts the restarts that node-1 caused.
func restartsByNode(pod, cause, values string) string {
	return fmt.Sprintf(`tensorstack_job_node_restarts_total{pod=%q, kind="PyTorchTrainingJob", node="node-1", cause=%q} %s`,
		pod, cause, values)
}

func TestAlertsFireOnlyInBadSituations(t *testing.T) {
	t.Parallel()
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			t.Run(rule.Alert, func(t *testing.T) {
				t.Parallel()
				situation, known := situations[rule.Alert]
				if !known {
					t.Fatal("the alert has no entry in situations: add series with which it must fire")
				}
				engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 100000)
				expression := strings.Join(strings.Fields(rule.Expr.String()), " ")
				// An alert fires if its expression has a result, so the test counts the results.
				ask := fmt.Sprintf("\n\neval instant at %dm count(%s)\n", cmp.Or(situation.minute, 100), expression)
				for _, bad := range situation.bad {
					promqltest.RunTest(t, "load 1m\n  "+indented(bad)+ask+"  {} 1\n", engine)
				}
				for _, good := range situation.good {
					promqltest.RunTest(t, "load 1m\n  "+indented(good)+ask, engine)
				}
			})
		}
	}
}

func indented(series string) string { return strings.ReplaceAll(series, "\n", "\n  ") }

func TestQueriesAndDocumentHaveTheSameMetrics(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(root, "docs/operate/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	// Queries also use metrics of libraries. The end-to-end tests check that the controllers expose these metrics.
	ours := regexp.MustCompile(`^tensorstack_`)
	histogram := regexp.MustCompile(`_(bucket|sum|count)$`)
	queries, err := Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, query := range queries {
		selectors, err := query.Asked()
		if err != nil {
			t.Error(err)
		}
		for _, selector := range selectors {
			name := histogram.ReplaceAllString(selector.Metric, "")
			asked[name] = true
			if ours.MatchString(name) && !strings.Contains(string(document), "| `"+name+"` |") {
				t.Errorf("%s queries %s, which docs/operate/metrics.md does not list", query.Where, name)
			}
		}
	}
	// A metric that neither the dashboard nor an alert uses is not needed.
	documented := regexp.MustCompile("(?m)^\\| `(tensorstack_[a-z_]+)` \\|")
	for _, found := range documented.FindAllStringSubmatch(string(document), -1) {
		if !asked[found[1]] {
			t.Errorf("neither the dashboard nor an alert uses %s", found[1])
		}
	}
}

func TestPanelsOfTheDashboardDoNotOverlap(t *testing.T) {
	t.Parallel()
	dashboard, err := ReadDashboard(root)
	if err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || panel.Title == "" || (panel.Type == "row") != (len(panel.Targets) == 0) {
			t.Errorf("panel %d, %q, needs a unique ID, a title, and queries unless it is a row", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q overlaps panel %q or is outside the grid", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}

func TestServiceMonitorIsValid(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "deploy/base/servicemonitor/servicemonitor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var monitor monitoringv1.ServiceMonitor
	if err := yaml.UnmarshalStrict(content, &monitor); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(monitor.Spec.Endpoints, func(e monitoringv1.Endpoint) bool { return e.Port == "metrics" }) {
		t.Error("the ServiceMonitor has no endpoint for the port metrics")
	}
}
