{{/* Whether user and group are left to the cluster. */}}
{{- define "vedette.openshift" -}}
{{- if or (eq .Values.openshift "always") (and (eq .Values.openshift "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
true
{{- end -}}
{{- end }}

{{/* The pod's security context as the cluster wants it: (list root context). */}}
{{- define "vedette.podSecurityContext" -}}
{{- $context := index . 1 -}}
{{- if include "vedette.openshift" (index . 0) -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end }}

{{- define "vedette.agent.podSecurityContext" -}}
{{- $context := deepCopy .Values.podSecurityContext -}}
{{- if .Values.icmp.enabled -}}
{{- $name := "net.ipv4.ping_group_range" -}}
{{- $has := false -}}
{{- range $context.sysctls }}{{ if eq .name $name }}{{ $has = true }}{{ end }}{{ end -}}
{{- if not $has -}}
{{- $_ := set $context "sysctls" (append (default list $context.sysctls) (dict "name" $name "value" "0 2147483647")) -}}
{{- end -}}
{{- end -}}
{{- if .Values.chromiumSandbox.enabled -}}
{{- $_ := set $context "seccompProfile" (dict "type" "Localhost" "localhostProfile" .Values.chromiumSandbox.localhostProfile) -}}
{{- end -}}
{{- include "vedette.podSecurityContext" (list . $context) -}}
{{- end }}

{{- define "vedette.agent.securityContext" -}}
{{- $context := deepCopy .Values.securityContext -}}
{{- if .Values.capture.enabled -}}
{{- $capabilities := default dict $context.capabilities -}}
{{- $_ := set $capabilities "add" (append (default list $capabilities.add) "NET_RAW" | uniq) -}}
{{- $_ := set $context "capabilities" $capabilities -}}
{{- $_ := set $context "allowPrivilegeEscalation" true -}}
{{- end -}}
{{- toYaml $context -}}
{{- end }}

{{/* Spread constraints, about the component where they do not say about what: (list root component constraints). */}}
{{- define "vedette.spread" -}}
{{- $root := index . 0 -}}
{{- $labels := include "vedette.selector" (list $root (index . 1)) | fromYaml -}}
{{- $made := list -}}
{{- range index . 2 -}}
{{- $made = append $made (merge (dict) . (dict "labelSelector" (dict "matchLabels" $labels))) -}}
{{- end -}}
{{- toYaml $made -}}
{{- end }}

{{/* What the pods of agents and of the service have alike: (list root component values). */}}
{{- define "vedette.podSpec" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
serviceAccountName: {{ include "vedette.serviceAccountName" $root }}
automountServiceAccountToken: {{ $root.Values.serviceAccount.automount }}
# Kubernetes would set names like SERVICE_PORT for its Services, which are settings here.
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints: {{- include "vedette.spread" (list $root $component .) | nindent 2 }}
{{- end }}
{{- end }}

{{/* What their containers have alike: the values of the component. */}}
{{- define "vedette.container" -}}
{{- with .extraEnvFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $probe := list "startupProbe" "readinessProbe" "livenessProbe" }}
{{- with index $ $probe }}
{{ $probe }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .lifecycle }}
lifecycle: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "vedette.caVolume" -}}
{{- $from := .Values.extraCaCertsFrom -}}
- name: ca
  {{- if $from.secret }}
  secret:
    secretName: {{ $from.secret }}
  {{- else }}
  configMap:
    name: {{ default (printf "%s-ca" (include "vedette.fullname" .)) $from.configMap }}
  {{- end }}
{{- end }}

{{- define "vedette.caMount" -}}
# The folder, not the file: only so does a change reach the running agent.
- name: ca
  mountPath: /etc/vedette/ca
  readOnly: true
{{- end }}
