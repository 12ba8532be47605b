package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMayReport(t *testing.T) {
	t.Parallel()
	plain := func(roleType string, replicas int32) Role {
		return Role{Type: roleType, Replicas: replicas, Template: &corev1.PodTemplateSpec{}}
	}
	onHost := func(r Role) Role {
		r.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
		return r
	}
	reports := func(first FirstProcess) JobSpec { return JobSpec{ReportsProgress: true, FirstProcess: first} }
	for name, tc := range map[string]struct {
		spec  JobSpec
		roles []Role
		// want are the names of the members that can report, and wantRoles the types of the roles that can have such members.
		want, wantRoles []string
	}{
		"no member of a job that does not report": {
			spec: JobSpec{FirstProcess: FirstProcessAnywhere}, roles: []Role{plain("worker", 2)},
		},
		"only the leader by default": {
			spec: reports(""), roles: []Role{plain("master", 1), plain("worker", 2)},
			want: []string{"job-master-0"}, wantRoles: []string{"master"},
		},
		"only the leader if it runs the first process": {
			spec: reports(FirstProcessOfLeader), roles: []Role{plain("worker", 2)},
			want: []string{"job-worker-0"}, wantRoles: []string{"worker"},
		},
		"the leader of the first role that has replicas": {
			spec: reports(FirstProcessOfLeader), roles: []Role{plain("master", 0), plain("worker", 2)},
			want: []string{"job-worker-0"}, wantRoles: []string{"worker"},
		},
		"the leader, and members whose domain names are less": {
			spec: reports(FirstProcessByName), roles: []Role{plain("master", 1), plain("helper", 2), plain("worker", 2)},
			want: []string{"job-master-0", "job-helper-0", "job-helper-1"}, wantRoles: []string{"master", "helper"},
		},
		"only the leader of a single type, since its index is the least": {
			spec: reports(FirstProcessByName), roles: []Role{plain("worker", 12)},
			want: []string{"job-worker-0"}, wantRoles: []string{"worker"},
		},
		"all members if the first process can run anywhere": {
			spec: reports(FirstProcessAnywhere), roles: []Role{plain("master", 1), plain("worker", 1)},
			want: []string{"job-master-0", "job-worker-0"}, wantRoles: []string{"master", "worker"},
		},
		"only the leader on the network of a node": {
			spec: reports(FirstProcessAnywhere), roles: []Role{onHost(plain("worker", 2))},
			want: []string{"job-worker-0"}, wantRoles: []string{"worker"},
		},
		"members with their own network beside a leader on the network of a node": {
			spec: reports(FirstProcessAnywhere), roles: []Role{onHost(plain("master", 1)), plain("worker", 1)},
			want: []string{"job-master-0", "job-worker-0"}, wantRoles: []string{"master", "worker"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.spec.Roles = tc.roles
			peers := NewPeers("ns", "job", "uid", "cluster.local", 0, tc.roles)
			var got, gotRoles []string
			for _, m := range peers.Members {
				if tc.spec.MayReport(peers, m) {
					got = append(got, m.Name)
				}
			}
			for _, role := range tc.roles {
				if tc.spec.HasReporters(role) {
					gotRoles = append(gotRoles, role.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected members that can report (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRoles, gotRoles); diff != "" {
				t.Errorf("unexpected roles that can have reporters (-want +got):\n%s", diff)
			}
		})
	}
}

// progressEnv returns the environment variables for progress that the main container has in a pod with its own
// network.
func progressEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "KUBEFLOW_TRAINER_SERVER_URL", Value: "http://127.0.0.1:29499"},
		{Name: "KUBEFLOW_TRAINER_SERVER_TOKEN", Value: "/t9k/progress-token/token"},
		{Name: "T9K_PROGRESS_FILE", Value: "/t9k/progress/reports"},
	}
}

func progressMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: "t9k-progress", MountPath: "/t9k/progress"},
		{Name: "t9k-progress-token", MountPath: "/t9k/progress-token", ReadOnly: true},
	}
}

// withSidecar returns the template with a sidecar that listens on a port, and with the volumes and the annotation
// that belong to the sidecar. It does not change the main container.
func withSidecar(template corev1.PodTemplateSpec, port string) corev1.PodTemplateSpec {
	template.Annotations = map[string]string{"batch.tensorstack.dev/progress-port": port}
	template.Spec.InitContainers = append([]corev1.Container{{
		Name: "progress", Image: "controller:test",
		Args: []string{
			"receive-progress", "--port=" + port, "--token-file=/t9k/progress-token/token", "--reports=/t9k/progress/reports",
		},
		VolumeMounts: progressMounts(), RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}, template.Spec.InitContainers...)
	template.Spec.Volumes = append(template.Spec.Volumes,
		corev1.Volume{Name: "t9k-progress", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "t9k-progress-token", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "token",
				FieldRef: &corev1.ObjectFieldSelector{
					FieldPath: "metadata.annotations['batch.tensorstack.dev/progress-token']",
				},
			}}},
		}})
	return template
}

func TestAddProgress(t *testing.T) {
	t.Parallel()
	const port = "29499"
	of := func(containers ...corev1.Container) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers}}
	}
	fetch := corev1.Container{Name: "fetch"}
	data := corev1.Volume{Name: "data"}
	main := corev1.Container{Name: "main"}
	wired := corev1.Container{Name: "main", Env: progressEnv(), VolumeMounts: progressMounts()}
	with := func(c corev1.Container, change func(*corev1.Container)) corev1.Container {
		c = *c.DeepCopy()
		change(&c)
		return c
	}
	full := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{fetch}, Volumes: []corev1.Volume{data},
			Containers: []corev1.Container{with(main, func(c *corev1.Container) {
				c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			}), {Name: "logger"}},
		},
	}
	wantFull := *full.DeepCopy()
	wantFull.Spec.Containers[0] = with(wired, func(c *corev1.Container) {
		c.VolumeMounts = append([]corev1.VolumeMount{{Name: "data", MountPath: "/data"}}, c.VolumeMounts...)
	})
	wantFull = withSidecar(wantFull, port)
	wantFull.Annotations["a"] = "b"

	onHost := of(main)
	onHost.Spec.HostNetwork = true
	const hostPort = 23414 // the last port of the job
	wantOnHost := of(with(wired, func(c *corev1.Container) {
		c.Env[0].Value = "http://127.0.0.1:23414"
		c.Ports = []corev1.ContainerPort{{ContainerPort: hostPort, HostPort: hostPort, Protocol: corev1.ProtocolTCP}}
	}))
	wantOnHost.Spec.HostNetwork = true

	for name, tc := range map[string]struct {
		template, want corev1.PodTemplateSpec
	}{
		"a plain template gets the sidecar, the volumes, the variables and the port": {
			template: of(main), want: withSidecar(of(wired), port),
		},
		"other containers, volumes and annotations stay": {template: full, want: wantFull},
		"on the network of a node, the sidecar has the last port of the job, which the main container declares": {
			template: onHost, want: withSidecar(wantOnHost, "23414"),
		},
		"variables of the user take precedence": {
			template: of(with(main, func(c *corev1.Container) {
				c.Env = []corev1.EnvVar{{Name: "KUBEFLOW_TRAINER_SERVER_URL", Value: "http://mine"}}
			})),
			want: withSidecar(of(with(wired, func(c *corev1.Container) {
				c.Env = append([]corev1.EnvVar{c.Env[1], c.Env[2]},
					corev1.EnvVar{Name: "KUBEFLOW_TRAINER_SERVER_URL", Value: "http://mine"})
			})), port),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := *tc.template.DeepCopy()
			peers := Peers{UID: "job-uid", Image: "controller:test"}
			member := Member{Role: Role{Type: "worker", Template: &tc.template}}
			if err := peers.AddProgress(member, &got, &got.Spec.Containers[0]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected template (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddProgressRefusesTemplatesThatUseReservedNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec    corev1.PodSpec
		wantErr string
	}{
		"a mount at the folder of reports": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/t9k//progress/"}},
			}}},
			wantErr: `the template of type "worker" mounts a volume at /t9k//progress/, which is reserved`,
		},
		"a mount below the folder of the token": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/t9k/progress-token/token"}},
			}}},
			wantErr: `the template of type "worker" mounts a volume at /t9k/progress-token/token, which is reserved`,
		},
		"a volume with the name of that for reports": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main"}}, Volumes: []corev1.Volume{{Name: "t9k-progress"}},
			},
			wantErr: `the template of type "worker" has a volume named "t9k-progress", which is reserved`,
		},
		"a volume with the name of that for the token": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main"}}, Volumes: []corev1.Volume{{Name: "t9k-progress-token"}},
			},
			wantErr: `the template of type "worker" has a volume named "t9k-progress-token", which is reserved`,
		},
		"a container with the name of the sidecar": {
			spec:    corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "progress"}}},
			wantErr: `the template of type "worker" has a container named "progress", which is reserved`,
		},
		"an init container with the name of the sidecar": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main"}}, InitContainers: []corev1.Container{{Name: "progress"}},
			},
			wantErr: `the template of type "worker" has a container named "progress", which is reserved`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := &corev1.PodTemplateSpec{Spec: tc.spec}
			err := Peers{}.AddProgress(
				Member{Role: Role{Type: "worker", Template: template}}, template.DeepCopy(), &template.Spec.Containers[0])
			if err == nil || err.Error() != tc.wantErr {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// The reports go to the loopback address of the pod, which a proxy cannot reach.
func TestLoopbackIsExemptFromTheProxy(t *testing.T) {
	t.Parallel()
	v := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	fromMap := corev1.EnvVar{Name: "NO_PROXY", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "no-proxy"},
	}}
	for name, tc := range map[string]struct {
		env, want []corev1.EnvVar
		from      []corev1.EnvFromSource
	}{
		"a proxy gets no list if the environment is also from a ConfigMap, which might have one": {
			env: []corev1.EnvVar{v("HTTP_PROXY", "http://proxy")}, want: []corev1.EnvVar{v("HTTP_PROXY", "http://proxy")},
			from: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}},
		},
		"an environment without a proxy stays as it is": {
			env: []corev1.EnvVar{v("A", "b")}, want: []corev1.EnvVar{v("A", "b")},
		},
		"an empty environment stays empty": {},
		"a proxy gets a list of exempt addresses": {
			env:  []corev1.EnvVar{v("HTTP_PROXY", "http://proxy")},
			want: []corev1.EnvVar{v("HTTP_PROXY", "http://proxy"), v("NO_PROXY", "127.0.0.1")},
		},
		"a proxy for all protocols in lower case gets a list": {
			env:  []corev1.EnvVar{v("all_proxy", "http://proxy")},
			want: []corev1.EnvVar{v("all_proxy", "http://proxy"), v("NO_PROXY", "127.0.0.1")},
		},
		"a proxy for HTTPS alone needs no list, since reports are sent over HTTP": {
			env: []corev1.EnvVar{v("HTTPS_PROXY", "http://proxy")}, want: []corev1.EnvVar{v("HTTPS_PROXY", "http://proxy")},
		},
		"a list is extended, even if the proxy is set elsewhere": {
			env: []corev1.EnvVar{v("NO_PROXY", ".svc")}, want: []corev1.EnvVar{v("NO_PROXY", ".svc,127.0.0.1")},
		},
		"lists in upper and lower case are both extended": {
			env: []corev1.EnvVar{v("http_proxy", "http://proxy"), v("no_proxy", ".svc"), v("NO_PROXY", ".local")},
			want: []corev1.EnvVar{
				v("http_proxy", "http://proxy"), v("no_proxy", ".svc,127.0.0.1"), v("NO_PROXY", ".local,127.0.0.1"),
			},
		},
		"an empty list gets the address": {
			env: []corev1.EnvVar{v("NO_PROXY", "")}, want: []corev1.EnvVar{v("NO_PROXY", "127.0.0.1")},
		},
		"a list that exempts all addresses stays as it is": {
			env: []corev1.EnvVar{v("NO_PROXY", "*")}, want: []corev1.EnvVar{v("NO_PROXY", "*")},
		},
		"a list from a ConfigMap stays as it is": {
			env:  []corev1.EnvVar{v("HTTP_PROXY", "http://proxy"), fromMap},
			want: []corev1.EnvVar{v("HTTP_PROXY", "http://proxy"), fromMap},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := append([]corev1.EnvVar(nil), tc.env...)
			if diff := cmp.Diff(tc.want, exemptFromProxy(tc.from, tc.env)); diff != "" {
				t.Errorf("unexpected environment (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.env); diff != "" {
				t.Errorf("the given environment changes (-before +after):\n%s", diff)
			}
		})
	}
}
