{{/* The alerts that are not left out, with the labels that all of them get. */}}
{{- define "vedette.alerts" -}}
{{- $rule := .Values.metrics.prometheusRule -}}
{{- $made := list -}}
{{- range include "vedette.allAlerts" . | fromYamlArray -}}
{{- if not (has .alert $rule.disabled) -}}
{{- $made = append $made (merge (dict "labels" (merge (dict) $rule.alertLabels .labels)) .) -}}
{{- end -}}
{{- end -}}
{{- toYaml $made -}}
{{- end }}

{{/*
Every alert has one cause and one thing to do. Those about a location come from the service's metrics, which
every copy of it shows alike, so max takes one of them; those about agents from the agents' own.
*/}}
{{- define "vedette.allAlerts" -}}
{{- $of := "" -}}
{{- with .Values.agent.location }}{{ $of = printf "{location=%q}" . }}{{ end -}}
{{- $agents := printf "namespace=%q,pod=~\"%s-.+\"" .Release.Namespace (include "vedette.agent.name" .) -}}
- alert: VedetteLocationStoppedReporting
  expr: max by (location) (vedette_location_agents{{ $of }}) == 0
  for: 5m
  labels: { severity: critical }
  annotations:
    summary: 'No agent serves the location {{ "{{ $labels.location }}" }}'
    description: Its runs wait and are lost after some minutes. Look whether the agents run, reach the service and have a valid key.
- alert: VedetteLocationUnderProvisioned
  expr: max by (location) (vedette_location_oldest_run_age_seconds{{ $of }}) > {{ .Values.metrics.prometheusRule.queueAgeSeconds }}
  for: 10m
  labels: { severity: warning }
  annotations:
    summary: 'Runs of the location {{ "{{ $labels.location }}" }} wait for {{ "{{ $value | humanizeDuration }}" }}'
    description: It has more to do than its agents can take. Add agents, or memory and processors to each.
- alert: VedetteRunsLost
  expr: sum by (location) (increase(vedette_location_runs_expired_total{{ $of }}[15m])) > 0
  labels: { severity: critical }
  annotations:
    summary: 'Runs of the location {{ "{{ $labels.location }}" }} were lost'
    description: No agent took them in time; their checks have a gap. Look for agents that are away, or too few.
- alert: VedetteAgentsOutdated
  expr: max by (location) (vedette_location_agents_outdated{{ $of }}) > 0
  for: 1h
  labels: { severity: warning }
  annotations:
    summary: '{{ "{{ $value }}" }} agents of the location {{ "{{ $labels.location }}" }} are older than the service'
    description: Upgrade their release to the version of the service.
- alert: VedetteAgentsDisconnected
  expr: sum(vedette_agent_connected{ {{- $agents -}} }) == 0 or absent(vedette_agent_connected{ {{- $agents -}} })
  for: 5m
  labels: { severity: critical }
  annotations:
    summary: 'No agent in namespace {{ .Release.Namespace }} is connected to the service'
    description: The log of the agents and their /-/readiness say why.
- alert: VedetteResultsLost
  expr: max by (namespace, pod) (vedette_agent_spool_dead{ {{- $agents -}} }) > 0
  labels: { severity: critical }
  annotations:
    summary: 'The agent {{ "{{ $labels.pod }}" }} has {{ "{{ $value }}" }} results that the service will never take'
    description: They were refused or became too old. The log of the agent names them and says why.
- alert: VedetteResultsWaiting
  expr: max by (namespace, pod) (min_over_time(vedette_agent_spool_results{ {{- $agents -}} }[10m])) > 0
  for: 5m
  labels: { severity: warning }
  annotations:
    summary: 'The agent {{ "{{ $labels.pod }}" }} cannot deliver results'
    description: They wait in its folder and are given up after a day. Look whether it reaches the service.
- alert: VedetteSandboxNotFull
  expr: max by (namespace, pod, state) (vedette_agent_sandbox{ {{- $agents -}},state!="full"}) == 1
  for: 5m
  labels: { severity: warning }
  annotations:
    summary: 'The walls around user code on {{ "{{ $labels.pod }}" }} are {{ "{{ $labels.state }}" }}'
    description: The node's kernel lacks a wall; /health of the agent says which. Move it to another node, or set agent.sandbox=require so that it refuses to start.
{{- end }}
