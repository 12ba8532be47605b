package test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/kit/suite"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

const remote = `
logDir:
  s3: {secretRef: {name: keys}, uri: ["s3://bucket/runs"]}
`

var _ = Describe("A TensorBoard", func() {
	It("runs, has a URL, and is not written again while nothing changes", func(ctx context.Context) {
		b := newBoard(ctx)
		tb := create(ctx, newNamespace(ctx), remote)
		pod := podOf(ctx, tb)
		Eventually(ctx, state(ctx, tb)).Should(Equal([]string{"Pending", "False Pending", "Unknown NotRunning"}))
		Expect(tb.Status.URL).To(Equal("http://board-tb." + tb.Namespace + ".svc.cluster.local/"))

		b.run(ctx, pod, "node-1")
		Eventually(ctx, state(ctx, tb)).Should(Equal([]string{"Running", "True Serving", "False RecentRequest"}))
		Expect(tb.Status.Pod.Reference.Name).To(Equal("board-tb"))
		Expect(tb.Status.Pod.Phase).To(Equal(corev1.PodRunning))
		Expect(tb.Status.ObservedGeneration).To(Equal(tb.Generation))
		Expect(tb.Status.Conditions).To(ContainElement(And(HaveField("Type", "Idle"),
			HaveField("LastProbeTime", Not(BeNil())))))

		// The controller emits one event, and writes it in the background.
		Eventually(ctx, func() int { return len(plane.Writes.In(tb.Namespace, "/events")) }).Should(Equal(1))
		writes := len(plane.Writes.In(tb.Namespace, ""))
		Consistently(ctx, func() int { return len(plane.Writes.In(tb.Namespace, "")) }, time.Second).Should(Equal(writes))
	})

	It("has a Service, and a pod with a sidecar configuration that contains no credentials", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		bound(ctx, namespace, "data", corev1.ReadWriteMany)
		tb := create(ctx, namespace, remote+`
  http: {url: ["https://host/events.out.tfevents.1"]}
  pvc: [{name: data, subPath: [logs]}]
`)
		var content sidecar.Config
		Expect(json.Unmarshal([]byte(configOf(podOf(ctx, tb))), &content)).To(Succeed())
		Expect(content).To(Equal(sidecar.Config{Sources: []sidecar.Source{
			{Run: "data-logs", Link: "/claims/data/logs"},
			{Run: "bucket-runs", S3: &sidecar.S3Source{Bucket: "bucket", Prefix: "runs", Secret: "/secrets/keys"}},
			{Run: "host-events.out.tfevents.1", HTTP: &sidecar.HTTPSource{URL: "https://host/events.out.tfevents.1"}},
		}}))
		service := get(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: tb.Namespace, Name: "board-tb"}})
		Expect(service.Spec.Ports).To(ConsistOf(And(HaveField("Port", int32(80)), HaveField("TargetPort.StrVal", "http"))))
		Expect(metav1.IsControlledBy(service, tb)).To(BeTrue())
	})

	It("does not change the ConfigMap that an earlier version created", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		config := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: tb.Namespace, Name: "board-tb", Labels: map[string]string{v1beta1.LabelName: tb.Name},
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(tb, v1beta1.GroupVersion.WithKind("TensorBoard")),
				},
			},
			Data: map[string]string{"config.json": `{"sources": []}`},
		}
		Expect(plane.Client.Create(ctx, config)).To(Succeed())
		written := config.ResourceVersion
		first := podOf(ctx, tb)
		patch(ctx, tb, `spec: {image: "example/tensorboard:2"}`)
		Eventually(ctx, func() bool { return podOf(ctx, tb).UID != first.UID }).Should(BeTrue())
		Expect(get(ctx, config).ResourceVersion).To(Equal(written))
	})

	It("fails while its sources exceed the size limit of the configuration", func(ctx context.Context) {
		var paths []string
		for i := range 40 {
			paths = append(paths, fmt.Sprintf("%03d-%s", i, strings.Repeat("é", 1000)))
		}
		var claims []map[string]any
		for i := range 4 {
			claims = append(claims, map[string]any{"name": fmt.Sprintf("data-%d", i), "subPath": paths})
		}
		namespace := newNamespace(ctx)
		for _, claim := range claims {
			bound(ctx, namespace, fmt.Sprint(claim["name"]), corev1.ReadWriteMany)
		}
		spec, err := yaml.Marshal(map[string]any{"logDir": map[string]any{"pvc": claims}})
		Expect(err).NotTo(HaveOccurred())
		tb := create(ctx, namespace, string(spec))
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Failed", "False CreateFailed", "Unknown NotRunning"))
		Expect(tb.Status.Conditions[0].Message).To(ContainSubstring("but the limit is 245760: use fewer sources"))

		patch(ctx, tb, `spec: {logDir: {pvc: [{name: data-0}]}}`)
		Expect(configOf(podOf(ctx, tb))).To(ContainSubstring("/claims/data-0"))
	})

	It("mounts credentials only into its sidecar, and claims read-only into TensorBoard", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		bound(ctx, namespace, "data", corev1.ReadWriteMany)
		pod := podOf(ctx, create(ctx, namespace, remote+"  pvc: [{name: data}]\n"))
		mounts := func(c corev1.Container) (all []string) {
			for _, m := range c.VolumeMounts {
				all = append(all, fmt.Sprintf("%s readOnly=%t", m.MountPath, m.ReadOnly))
			}
			return all
		}
		Expect(mounts(pod.Spec.InitContainers[0])).To(ConsistOf(
			"/etc/tensorboard-sidecar readOnly=true", "/logs readOnly=false", "/secrets/keys readOnly=true"))
		Expect(mounts(pod.Spec.Containers[0])).To(ConsistOf("/logs readOnly=true", "/tmp readOnly=false",
			"/claims/data readOnly=true"))
		Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	})

	It("has the image and the resources of its spec", func(ctx context.Context) {
		pod := podOf(ctx, create(ctx, newNamespace(ctx), remote+`
image: example/tensorboard:1
resources: {requests: {cpu: "2"}}
`))
		Expect(pod.Spec.Containers[0].Image).To(Equal("example/tensorboard:1"))
		Expect(pod.Spec.Containers[0].Resources).To(Equal(corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}))
	})

	It("can be suspended and resumed by its user, and keeps its Service", func(ctx context.Context) {
		b := newBoard(ctx)
		tb := create(ctx, newNamespace(ctx), remote)
		pod := podOf(ctx, tb)
		b.run(ctx, pod, "node-1")
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "False RecentRequest"))

		patch(ctx, tb, `spec: {suspend: true}`)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Pending", "False Stopping", "Unknown NotRunning"))
		end(ctx, pod)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Suspended", "False Suspended", "Unknown NotRunning"))
		Expect(tb.Status.Pod).To(BeNil())
		Expect(tb.Status.URL).NotTo(BeEmpty())
		get(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: tb.Namespace, Name: "board-tb"}})

		patch(ctx, tb, `spec: {suspend: false}`)
		b.run(ctx, podOf(ctx, tb), "node-1")
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "False RecentRequest"))
		Eventually(ctx, eventReasons(ctx, tb)).Should(ConsistOf("Serving", "Suspended", "Serving"))
	})

	It("can be updated by a typed client", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		suite.ExpectTypedUpdate(ctx, plane.Client, tb, func(tb *v1beta1.TensorBoard) { tb.Spec.Suspend = true })
	})

	It("is suspended after it was idle for a long time, and can be resumed by its user", func(ctx context.Context) {
		b := newBoard(ctx)
		tb := create(ctx, newNamespace(ctx), remote)
		pod := podOf(ctx, tb)
		b.run(ctx, pod, "node-1")
		b.idleFor(2 * time.Hour)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "True NoRequest"))
		Expect(tb.Spec.Suspend).To(BeFalse())
		b.idleFor(0)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "False RecentRequest"))

		b.idleFor(25 * time.Hour)
		Eventually(ctx, func() bool { return get(ctx, tb).Spec.Suspend }).Should(BeTrue())
		end(ctx, pod)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Suspended", "False Culled", "True Culled"))
		Eventually(ctx, eventReasons(ctx, tb)).Should(ContainElement("Culled"))

		b.idleFor(0)
		patch(ctx, tb, `spec: {suspend: false}`)
		b.run(ctx, podOf(ctx, tb), "node-1")
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "False RecentRequest"))
	})

	It("is not suspended while the time of its last request is unknown", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		absent := &board{address: "127.2.0.1"}
		absent.run(ctx, podOf(ctx, tb), "node-1")
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "Unknown ProbeFailed"))
	})

	It("reports a source that cannot be read, until it can be read again", func(ctx context.Context) {
		b := newBoard(ctx)
		tb := create(ctx, newNamespace(ctx), remote)
		b.run(ctx, podOf(ctx, tb), "node-1")
		b.status.Store(&sidecar.Status{
			Sources: []sidecar.SourceStatus{{Run: "bucket-runs", Source: "s3://bucket/runs", Error: "no Secret"}},
		})
		Eventually(
			ctx,
			func() string { return condition(get(ctx, tb), v1beta1.ConditionSourcesAvailable) },
		).Should(Equal("False FetchFailed"))
		b.status.Store(&sidecar.Status{})
		Eventually(
			ctx,
			func() string { return condition(get(ctx, tb), v1beta1.ConditionSourcesAvailable) },
		).Should(Equal("True AllAvailable"))
		Eventually(ctx, eventReasons(ctx, tb)).Should(ConsistOf("Serving", "FetchFailed", "AllAvailable"))
	})

	It("gets a new pod when its image changes", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		first := podOf(ctx, tb)
		patch(ctx, tb, `spec: {image: "example/tensorboard:2"}`)
		Eventually(ctx, func(g Gomega) {
			pod := &corev1.Pod{}
			g.Expect(plane.Client.Get(ctx, client.ObjectKeyFromObject(first), pod)).To(Succeed())
			g.Expect(pod.UID).NotTo(Equal(first.UID))
			g.Expect(pod.Spec.Containers[0].Image).To(Equal("example/tensorboard:2"))
		}).Should(Succeed())
	})

	It("gets a new pod when its sources change", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		Expect(configOf(podOf(ctx, tb))).To(ContainSubstring(`"prefix":"runs"`))
		patch(ctx, tb, `spec: {logDir: {s3: {uri: ["s3://bucket/others"]}}}`)
		Eventually(ctx, func() string { return configOf(podOf(ctx, tb)) }).Should(ContainSubstring(`"prefix":"others"`))
	})

	It("gets a new pod and a new Service when somebody deletes them", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		first := podOf(ctx, tb)
		Expect(plane.Client.Delete(ctx, first.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
		Expect(plane.Client.Delete(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: tb.Namespace, Name: "board-tb"},
		})).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			pod, service := &corev1.Pod{}, &corev1.Service{}
			g.Expect(plane.Client.Get(ctx, client.ObjectKeyFromObject(first), pod)).To(Succeed())
			g.Expect(pod.UID).NotTo(Equal(first.UID))
			g.Expect(plane.Client.Get(ctx, client.ObjectKeyFromObject(first), service)).To(Succeed())
		}).Should(Succeed())
	})

	It("does not change a Service of another owner that has its name", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		foreign := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "board-tb"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "mine.example.com"},
		}
		Expect(plane.Client.Create(ctx, foreign)).To(Succeed())
		tb := create(ctx, namespace, remote)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Failed", "False NameConflict", "Unknown NotRunning"))
		Eventually(ctx, eventReasons(ctx, tb)).Should(ConsistOf("NameConflict"))
		Expect(get(ctx, foreign).Spec.ExternalName).To(Equal("mine.example.com"))
	})

	It("reports why the API server rejects its pod", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		Expect(plane.Client.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = quota.Spec.Hard
		Expect(plane.Client.Status().Update(ctx, quota)).To(Succeed())
		tb := create(ctx, namespace, remote)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Failed", "False CreateFailed", "Unknown NotRunning"))
		Expect(tb.Status.Conditions[0].Message).To(ContainSubstring("exceeded quota"))
	})

	It("runs under a quota that counts the requests and limits of CPU and memory", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "compute"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceRequestsCPU: resource.MustParse("3"), corev1.ResourceRequestsMemory: resource.MustParse("30Gi"),
				corev1.ResourceLimitsCPU: resource.MustParse("3"), corev1.ResourceLimitsMemory: resource.MustParse("30Gi"),
			}},
		}
		Expect(plane.Client.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{}
		for name := range quota.Spec.Hard {
			quota.Status.Used[name] = resource.MustParse("0")
		}
		Expect(plane.Client.Status().Update(ctx, quota)).To(Succeed())
		podOf(ctx, create(ctx, namespace, remote))
	})

	Describe("with claims", func() {
		const onData = `trainingLogFilesets: ["t9k://pvc/data/logs"]`

		It("waits until its claims are bound, because training decides where the volumes are", func(ctx context.Context) {
			namespace := newNamespace(ctx)
			tb := create(ctx, namespace, onData)
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Pending", "False ClaimNotReady", "Unknown NotRunning"))
			Expect(tb.Status.Conditions[0].Message).To(Equal("persistentvolumeclaim data does not exist"))
			bound(ctx, namespace, "data", corev1.ReadWriteMany)
			Expect(podOf(ctx, tb).Spec.Affinity).To(BeNil())
		})

		It("runs on the node where its ReadWriteOnce claim is in use", func(ctx context.Context) {
			namespace := newNamespace(ctx)
			bound(ctx, namespace, "data", corev1.ReadWriteOnce)
			user(ctx, namespace, "trainer", "node-7")
			Expect(nodeOf(podOf(ctx, create(ctx, namespace, onData)))).To(Equal("node-7"))
		})

		It("moves to the node where another pod needs its ReadWriteOnce claim", func(ctx context.Context) {
			namespace := newNamespace(ctx)
			bound(ctx, namespace, "data", corev1.ReadWriteOnce)
			b := newBoard(ctx)
			tb := create(ctx, namespace, onData)
			first := podOf(ctx, tb)
			b.run(ctx, first, "node-1")
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Running", "True Serving", "False RecentRequest"))
			user(ctx, namespace, "trainer", "node-2")
			end(ctx, first)
			Eventually(ctx, func() string { return nodeOf(podOf(ctx, tb)) }).Should(Equal("node-2"))
			Eventually(ctx, eventReasons(ctx, tb)).Should(ContainElement("GivingWay"))
		})

		It("does not use a ReadWriteOncePod claim, which the training needs", func(ctx context.Context) {
			namespace := newNamespace(ctx)
			bound(ctx, namespace, "data", corev1.ReadWriteOncePod)
			tb := create(ctx, namespace, onData)
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Failed", "False ClaimExclusive", "Unknown NotRunning"))
			err := plane.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "board-tb"}, &corev1.Pod{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue())
		})
	})
})

// configOf returns the sidecar configuration of a pod. It is in an annotation, which the kubelet writes into a file.
func configOf(pod *corev1.Pod) string {
	GinkgoHelper()
	Expect(pod.Spec.Volumes).To(ContainElement(HaveField("VolumeSource.DownwardAPI.Items", ConsistOf(And(
		HaveField("Path", filepath.Base(sidecar.ConfigFile)),
		HaveField("FieldRef.FieldPath", "metadata.annotations['tensorstack.dev/sidecar-config']"),
	)))))
	return pod.Annotations["tensorstack.dev/sidecar-config"]
}

// bound creates a claim that is bound.
func bound(ctx context.Context, namespace, name string, mode corev1.PersistentVolumeAccessMode) {
	GinkgoHelper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	Expect(plane.Client.Create(ctx, claim)).To(Succeed())
	claim.Status.Phase = corev1.ClaimBound
	Expect(plane.Client.Status().Update(ctx, claim)).To(Succeed())
}

// user creates a pod that uses the claim "data". The pod is starting on the node.
func user(ctx context.Context, namespace, name, node string) {
	GinkgoHelper()
	no, yes := false, true
	Expect(plane.Client.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "main", Image: "example", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	})).To(Succeed())
}

// nodeOf returns the node on which a pod must run, according to its affinity. It is empty if the pod can run on any
// node.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil {
		return ""
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required.NodeSelectorTerms[0].MatchFields[0].Values[0]
}
