# Databricks notebook source
# MAGIC %md
# MAGIC # Orders, as a pipeline
# MAGIC
# MAGIC The source of a pipeline: it says which tables there are, and the pipeline runs them. `databricks.yml` beside this
# MAGIC notebook defines it, with the package in its environment (a pipeline's source installs nothing with `%pip`).

# COMMAND ----------

from pyspark import pipelines as dp

import spark_azqueue

spark.dataSource.register(spark_azqueue.AzQueueDataSource)

# COMMAND ----------

# A pipeline has no widgets: its configuration is Spark's.
account = spark.conf.get("shop.account")
queue = spark.conf.get("shop.queue")
credential = spark.conf.get("shop.service_credential")
log = spark.conf.get("shop.log")

# COMMAND ----------


# The log is what makes this exact: a pipeline may run an update again.
@dp.table(name="orders_raw", comment="Each message of the queue, as it came")
def orders_raw():
    return (
        spark.readStream.format("azqueue")
        .option("accountUrl", account)
        .option("credential", "databricks")
        .option("serviceCredential", credential)
        .option("queue", queue)
        .option("writeAheadLog", log)
        .load()
        .select("message_id", "insertion_time", "body")
    )


# COMMAND ----------


@dp.table(name="orders", comment="What could be read of them")
def orders():
    parsed = "from_json(body, 'order_id BIGINT, quantity BIGINT') AS o"
    rows = spark.readStream.table("orders_raw").selectExpr("message_id", parsed)
    return rows.where("o.order_id IS NOT NULL").select("message_id", "o.*")
