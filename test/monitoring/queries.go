// Package monitoring reads the alerts and the dashboard of deploy/monitoring. Tests compare the queries of both with
// the metrics of the controllers.
package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// Folder is the folder of the alerts and the dashboard, relative to the root of the repository.
const Folder = "deploy/monitoring"

// Query is the query of an alert or of one target of a panel.
type Query struct {
	// Where is "alert" and the name of the alert, or "panel" and the title of the panel.
	Where string
	// Expression is the query in PromQL, with values instead of the variables of the dashboard.
	Expression string
}

// Dashboard holds the fields of a Grafana dashboard that are checked.
type Dashboard struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// Panel is a panel of a dashboard, or the heading of a row.
type Panel struct {
	ID      int      `json:"id"`
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	GridPos GridPos  `json:"gridPos"`
	Targets []Target `json:"targets"`
}

// GridPos is the position and the size of a panel in a grid with 24 columns.
type GridPos struct{ X, Y, W, H int }

// Target is a query of a panel.
type Target struct {
	Expr string `json:"expr"`
}

// Rules returns the alerts of the repository at root. It returns an error if the file has a field that a PrometheusRule
// does not have.
func Rules(root string) (*monitoringv1.PrometheusRule, error) {
	content, err := os.ReadFile(filepath.Join(root, Folder, "prometheusrule.yaml"))
	if err != nil {
		return nil, err
	}
	var rules monitoringv1.PrometheusRule
	return &rules, yaml.UnmarshalStrict(content, &rules)
}

// ReadDashboard returns the dashboard of the repository at root.
func ReadDashboard(root string) (*Dashboard, error) {
	content, err := os.ReadFile(filepath.Join(root, Folder, "dashboard.json"))
	if err != nil {
		return nil, err
	}
	var dashboard Dashboard
	return &dashboard, json.Unmarshal(content, &dashboard)
}

// variables replaces the variables of the dashboard by possible values.
var variables = strings.NewReplacer("$kind", ".*", "$queue", ".*", "$__rate_interval", "5m", "$__range", "1d")

// Queries returns the queries of all alerts and of the dashboard.
func Queries(root string) ([]Query, error) {
	rules, err := Rules(root)
	if err != nil {
		return nil, err
	}
	dashboard, err := ReadDashboard(root)
	if err != nil {
		return nil, err
	}
	var queries []Query
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			queries = append(queries, Query{"alert " + rule.Alert, rule.Expr.String()})
		}
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, Query{"panel " + panel.Title, variables.Replace(target.Expr)})
		}
	}
	return queries, nil
}

// Asked is a metric in a query, with the names of the labels that select its series.
type Asked struct {
	Metric string
	Labels []string
}

// Asked returns the metrics in the query. It returns an error if the query is not PromQL.
func (q Query) Asked() ([]Asked, error) {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(q.Expression)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.Where, err)
	}
	var asked []Asked
	for _, selector := range parser.ExtractSelectors(expression) {
		var a Asked
		for _, matcher := range selector {
			if matcher.Name == model.MetricNameLabel {
				a.Metric = matcher.Value
			} else {
				a.Labels = append(a.Labels, matcher.Name)
			}
		}
		asked = append(asked, a)
	}
	return asked, nil
}
