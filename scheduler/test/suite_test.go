// Package test runs the scheduler-controller against a real API server, with the shipped CRDs and RBAC. No engine
// runs in these tests. The tests in test/scheduling run with the engines.
package test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/suite"
	"tensorstack.dev/jobs/scheduler"
)

var plane *controlplane.ControlPlane

func TestIntegration(t *testing.T) { suite.Run(t, "scheduler-controller") }

var _ = BeforeSuite(func() {
	plane = suite.Controller{
		Program: scheduler.Program(scheduler.DefaultOptions()), Namespace: "t9k-scheduler", ConfigFolder: "../config",
	}.Start()
})

// apply creates an object of the given kind and name. The spec is YAML.
func apply(ctx context.Context, kind, namespace, name, spec string, options ...client.CreateOption) error {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1beta1.GroupVersion.String(), "kind": kind}}
	object.SetNamespace(namespace)
	object.SetName(name)
	var content map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed())
	object.Object["spec"] = content
	return plane.Client.Create(ctx, object, options...)
}

// newNamespace creates a namespace whose label "team" has the given value. It returns the name of the namespace.
func newNamespace(ctx context.Context, team string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: map[string]string{"team": team}},
	}
	Expect(plane.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// admitted returns a function that returns the reason of the condition Admitted of a group.
func admitted(ctx context.Context, namespace, name string) func() string {
	return func() string {
		var group v1beta1.PodGroup
		Expect(plane.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &group)).To(Succeed())
		c := meta.FindStatusCondition(group.Status.Conditions, v1beta1.ConditionAdmitted)
		if c == nil {
			return ""
		}
		return c.Reason
	}
}
