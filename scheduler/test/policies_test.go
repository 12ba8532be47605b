package test

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
)

var _ = Describe("The admission policies for pods", Ordered, func() {
	var (
		namespace string
		tenant    client.Client
	)

	BeforeAll(func(ctx context.Context) {
		namespace, tenant = newTenant(ctx)
		awaitPolicies(ctx, tenant, namespace)
	})

	DescribeTable("allow a tenant to", func(ctx context.Context, change func(*corev1.Pod)) {
		pod := member(namespace)
		Expect(tenant.Create(ctx, pod)).To(Succeed())
		before := pod.DeepCopy()
		change(pod)
		Expect(tenant.Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
	},
		Entry("add another label to a pod", labelled("team", "vision")),
		Entry("add another annotation to a pod", annotated("note", "mine")),
		Entry("replace the image of a pod", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other" }),
		Entry("remove its own gate from a pod", func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[:1]
		}),
		Entry("mark a pod as preemptible", annotated(preemptable, "true")),
	)

	DescribeTable("do not allow a tenant to", func(ctx context.Context, change func(*corev1.Pod), why string) {
		pod := member(namespace)
		Expect(tenant.Create(ctx, pod)).To(Succeed())
		before := pod.DeepCopy()
		change(pod)
		Expect(tenant.Patch(ctx, pod, client.MergeFrom(before))).To(MatchError(ContainSubstring(why)))
	},
		Entry("remove a pod from its group", unlabelled(v1beta1.LabelGroupName), "metadata.labels:"),
		Entry("move a pod to another group", labelled(v1beta1.LabelGroupName, "other"), "metadata.labels:"),
		Entry("remove a pod from its queue", unlabelled(v1beta1.LabelQueue), "metadata.labels:"),
		Entry("give a pod a role", labelled(v1beta1.LabelRole, "master"), "metadata.labels:"),
		Entry("mark a pod as released", annotated(v1beta1.AnnotationReleased, "true"), "metadata.annotations:"),
		Entry("mark a pod as extra", annotated(v1beta1.AnnotationExtra, "true"), "metadata.annotations:"),
		Entry("remove the gate of the queue", func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[1:]
		}, "spec.schedulingGates:"),
		Entry("remove a pod from its group in Volcano", unannotated(gang.AnnotationGroup),
			"group-name and volcano.sh/task-spec"),
		Entry("move a pod to another group in Volcano", annotated(gang.AnnotationGroup, "other"),
			"group-name and volcano.sh/task-spec"),
		Entry("give a pod a role in Volcano", annotated(taskSpec, "master"), "group-name and volcano.sh/task-spec"),
		Entry("keep a pod from being evicted by Volcano", annotated(preemptable, "false"), preemptable),
		Entry("keep a pod from being evicted by Volcano, by a label", labelled(preemptable, "false"), preemptable),
	)

	It("do not allow a tenant to add a pod to a group of Volcano after the pod was created", func(ctx context.Context) {
		pod := member(namespace)
		pod.Annotations = nil
		Expect(tenant.Create(ctx, pod)).To(Succeed())
		before := pod.DeepCopy()
		annotated(gang.AnnotationGroup, "group")(pod)
		Expect(tenant.Patch(ctx, pod, client.MergeFrom(before))).To(MatchError(ContainSubstring("metadata.annotations:")))
	})

	DescribeTable("check new pods:", func(ctx context.Context, change func(*corev1.Pod), why string) {
		createMember(ctx, tenant, namespace, change, why)
	},
		Entry("a pod of a group can lack the annotation of Volcano", unannotated(gang.AnnotationGroup), ""),
		Entry("a pod of a group cannot be in another group of Volcano", annotated(gang.AnnotationGroup, "other"),
			"must be the same as the label"),
		Entry("a pod of a group cannot be kept from being evicted", annotated(preemptable, "false"), preemptable),
		Entry("a pod of a group cannot lack the gate", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil },
			"spec.schedulingGates:"),
		Entry("a pod of a group of another scheduler needs no gate", func(pod *corev1.Pod) {
			pod.Spec.SchedulerName, pod.Spec.SchedulingGates = corev1.DefaultSchedulerName, nil
		}, ""),
		Entry("a pod of a group cannot choose its node", onNode, "spec.nodeName:"),
		Entry("a pod of a queue cannot choose its node", func(pod *corev1.Pod) {
			onNode(pod)
			unlabelled(v1beta1.LabelGroupName)(pod)
		}, "spec.nodeName:"),
		Entry("a pod that is in no queue can choose its node", func(pod *corev1.Pod) {
			onNode(pod)
			pod.Labels = nil
		}, ""),
	)

	// With the values in scheduler/README.md for Volcano's Helm chart, Volcano's controllers also handle pods whose
	// schedulerName is t9k-scheduler.
	It("allow Volcano's controllers to use the annotation for their own pods", func(ctx context.Context) {
		user := "system:serviceaccount:volcano-system:volcano-controllers"
		bind(ctx, namespace, user, rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit",
		})
		volcano := as(user)
		byJob := member(namespace)
		byJob.Labels, byJob.Spec.SchedulingGates = map[string]string{"volcano.sh/job-name": "job"}, nil
		annotated(gang.AnnotationGroup, "job-1")(byJob)
		annotated(preemptable, "false")(byJob)
		Eventually(func() error { return volcano.Create(ctx, byJob) }).Should(Succeed()) // once the API server sees the role
		byDeployment := member(namespace)
		byDeployment.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"}
		Expect(tenant.Create(ctx, byDeployment)).To(Succeed())
		before := byDeployment.DeepCopy()
		annotated(gang.AnnotationGroup, "podgroup-1")(byDeployment)
		Expect(volcano.Patch(ctx, byDeployment, client.MergeFrom(before))).To(Succeed())

		By("moving the pods to another group")
		for _, pod := range []*corev1.Pod{byJob, byDeployment} {
			before := pod.DeepCopy()
			annotated(gang.AnnotationGroup, "other")(pod)
			Expect(tenant.Patch(ctx, pod, client.MergeFrom(before))).
				To(MatchError(ContainSubstring("metadata.annotations:")))
		}
	})

	It("do not allow a tenant to add a pod to a group after the pod was created", func(ctx context.Context) {
		pod := member(namespace)
		pod.Labels, pod.Spec.SchedulingGates = nil, nil
		Expect(tenant.Create(ctx, pod)).To(Succeed())
		before := pod.DeepCopy()
		labelled(v1beta1.LabelGroupName, "group")(pod)
		Expect(tenant.Patch(ctx, pod, client.MergeFrom(before))).To(MatchError(ContainSubstring("metadata.labels:")))
	})

	It("do not allow a tenant to create a pod that is marked as released", func(ctx context.Context) {
		pod := member(namespace)
		annotated(v1beta1.AnnotationReleased, "true")(pod)
		Expect(tenant.Create(ctx, pod)).To(MatchError(ContainSubstring("metadata.annotations:")))
	})

	DescribeTable("allow a pod to be released by", func(ctx context.Context, config func() *rest.Config) {
		pod := member(namespace)
		Expect(tenant.Create(ctx, pod)).To(Succeed())
		before := pod.DeepCopy()
		pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[1:]
		annotated(v1beta1.AnnotationReleased, "true")(pod)
		labelled(v1beta1.LabelQueue, "other")(pod)
		c, err := client.New(config(), client.Options{Scheme: plane.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
	},
		Entry("the scheduler-controller", func() *rest.Config { return plane.Controller() }),
		Entry("a cluster administrator", func() *rest.Config { return plane.Config }),
	)

	DescribeTable("do not allow the scheduler-controller to", func(
		ctx context.Context, change func(*corev1.Pod), why string,
	) {
		pod := member(namespace)
		Expect(tenant.Create(ctx, pod)).To(Succeed())
		before := pod.DeepCopy()
		change(pod)
		controller, err := client.New(plane.Controller(), client.Options{Scheme: plane.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(controller.Patch(ctx, pod, client.MergeFrom(before))).To(MatchError(ContainSubstring(why)))
	},
		Entry("replace the image of a pod", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other" }, "spec:"),
		Entry("add a toleration to a pod", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		}, "spec:"),
		Entry("set the deadline of a pod", func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(1)) }, "spec:"),
		Entry("remove the gate of another controller", func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[:1]
		}, "spec.schedulingGates:"),
		Entry("move a pod to another group", labelled(v1beta1.LabelGroupName, "other"), "metadata:"),
		Entry("remove a label of a pod", unlabelled(v1beta1.LabelGroupName), "metadata:"),
		Entry("add a finalizer to a pod", func(pod *corev1.Pod) {
			pod.Finalizers = []string{"example.com/stay"}
		}, "metadata:"),
	)

	DescribeTable("check the PriorityClasses of queues:", func(
		ctx context.Context, change func(*corev1.Pod), refused bool,
	) {
		for _, class := range []string{"t9k-native-10", "t9k-volcano-10"} {
			pod := member(namespace)
			pod.Spec.PriorityClassName = class
			change(pod)
			if err := tenant.Create(ctx, pod); refused {
				Expect(err).To(MatchError(ContainSubstring("spec.priorityClassName:")))
			} else {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	},
		Entry("pods of a group can use them", func(*corev1.Pod) {}, false),
		Entry("pods without a group cannot use them", unlabelled(v1beta1.LabelGroupName), true),
		Entry("pods of another scheduler cannot use them",
			func(pod *corev1.Pod) { pod.Spec.SchedulerName = corev1.DefaultSchedulerName }, true),
	)

	It("allow other PriorityClasses whose names begin with t9k-", func(ctx context.Context) {
		pod := member(namespace)
		pod.Labels, pod.Spec.PriorityClassName = nil, "t9k-system"
		Expect(tenant.Create(ctx, pod)).To(Succeed())
	})
})

var _ = Describe("In a namespace that requires a queue", Ordered, func() {
	var (
		namespace string
		tenant    client.Client
	)

	BeforeAll(func(ctx context.Context) {
		namespace, tenant = newTenant(ctx)
		labels := []byte(`{"metadata":{"labels":{"scheduler.tensorstack.dev/require-queue":"true"}}}`)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Expect(plane.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", labels))).To(Succeed())
		Eventually(func() error { return tenant.Create(ctx, member(namespace), client.DryRunAll) }).Should(Succeed())
		Eventually(func() error {
			pod := member(namespace)
			pod.Labels = nil
			return tenant.Create(ctx, pod, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
	})

	DescribeTable("the pod of a tenant is", func(ctx context.Context, change func(*corev1.Pod), why string) {
		createMember(ctx, tenant, namespace, change, why)
	},
		Entry("created if it belongs to a group and has the gate", func(*corev1.Pod) {}, ""),
		Entry("rejected without a group", unlabelled(v1beta1.LabelGroupName),
			"requires all pods to be scheduled from a queue"),
		Entry("rejected with another scheduler", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "" },
			"requires all pods to be scheduled from a queue"),
		Entry("rejected if it sets spec.nodeName", onNode, "spec.nodeName:"),
		Entry("rejected without the gate", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil },
			"spec.schedulingGates:"),
	)

	It("a controller can create a pod without the gate, since not every queue needs gates", func(ctx context.Context) {
		grant(ctx, namespace, "controller", rbacv1.PolicyRule{
			APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"podgroups"}, Verbs: []string{"manage-pods"},
		}, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}})
		controller := as("controller")
		Eventually(func() error {
			pod := member(namespace)
			pod.Spec.SchedulingGates = nil
			return controller.Create(ctx, pod)
		}).Should(Succeed()) // the API server takes a moment to see the role
	})
})

// member returns a pod of a group, with the gate of its queue and another gate.
func member(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, GenerateName: "member-",
			Labels:      map[string]string{v1beta1.LabelGroupName: "group", v1beta1.LabelQueue: "lab"},
			Annotations: map[string]string{gang.AnnotationGroup: "group"},
		},
		Spec: corev1.PodSpec{
			SchedulerName:   v1beta1.SchedulerName,
			SchedulingGates: []corev1.PodSchedulingGate{{Name: v1beta1.QueueGate}, {Name: "example.com/own"}},
			Containers:      []corev1.Container{{Name: "main", Image: "image"}},
		},
	}
}

// createMember applies a change to a pod of a group and creates the pod. If the parameter why is empty, the creation
// must succeed. Otherwise it must fail with an error that contains this text.
func createMember(ctx context.Context, tenant client.Client, namespace string, change func(*corev1.Pod), why string) {
	GinkgoHelper()
	pod := member(namespace)
	change(pod)
	if err := tenant.Create(ctx, pod); why == "" {
		Expect(err).NotTo(HaveOccurred())
	} else {
		Expect(err).To(MatchError(ContainSubstring(why)))
	}
}

// taskSpec and preemptable are annotations of Volcano. preemptable can also be a label.
const (
	taskSpec    = "volcano.sh/task-spec"
	preemptable = "volcano.sh/preemptable"
)

// onNode makes a pod choose its node. Such a pod cannot have a gate.
func onNode(pod *corev1.Pod) { pod.Spec.NodeName, pod.Spec.SchedulingGates = "node-1", nil }

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value) }
}

func unlabelled(key string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = maps.Clone(pod.Labels)
		delete(pod.Labels, key)
	}
}

func unannotated(key string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = maps.Clone(pod.Annotations)
		delete(pod.Annotations, key)
	}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

// newTenant creates a namespace. It returns the name of the namespace, and the client of a user who has the rights of
// the ClusterRole "edit" in the namespace.
func newTenant(ctx context.Context) (namespace string, tenant client.Client) {
	GinkgoHelper()
	namespace = newNamespace(ctx, "tenants")
	// In this cluster, no controller fills the ClusterRole "edit" with rules. So the tenant gets one of the ClusterRoles
	// that other clusters aggregate into it.
	bind(ctx, namespace, namespace, rbacv1.RoleRef{
		APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit",
	})
	return namespace, as(namespace)
}

// grant gives a user the rights of the rules in a namespace.
func grant(ctx context.Context, namespace, user string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	Expect(plane.Client.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, Rules: rules,
	})).To(Succeed())
	bind(ctx, namespace, user, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user})
}

// bind binds a role to a user in a namespace.
func bind(ctx context.Context, namespace, user string, role rbacv1.RoleRef) {
	GinkgoHelper()
	Expect(plane.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, RoleRef: role,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}

// as returns a client that impersonates a user.
func as(user string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(plane.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: plane.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// awaitPolicies waits until the API server allows the tenant to create pods and enforces the policies for pods. The API
// server takes a moment to see a new policy, role or PriorityClass.
func awaitPolicies(ctx context.Context, tenant client.Client, namespace string) {
	GinkgoHelper()
	for _, class := range []string{"t9k-native-10", "t9k-volcano-10", "t9k-system"} {
		object := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Value: 10}
		// The scheduler-controller might already have created some of these classes.
		Expect(client.IgnoreAlreadyExists(plane.Client.Create(ctx, object))).To(Succeed())
	}
	released := member(namespace)
	annotated(v1beta1.AnnotationReleased, "true")(released)
	classed := member(namespace)
	unlabelled(v1beta1.LabelGroupName)(classed)
	classed.Spec.PriorityClassName = "t9k-native-10"
	create := func(pod *corev1.Pod) func() error {
		return func() error { return tenant.Create(ctx, pod.DeepCopy(), client.DryRunAll) }
	}
	Eventually(create(member(namespace))).Should(Succeed())
	for _, pod := range []*corev1.Pod{released, classed} {
		Eventually(create(pod)).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
	}
	for _, class := range []string{"t9k-volcano-10", "t9k-system"} {
		pod := member(namespace)
		pod.Spec.PriorityClassName = class
		Eventually(create(pod)).Should(Succeed())
	}
}
